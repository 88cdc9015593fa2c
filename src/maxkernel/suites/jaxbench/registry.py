"""The fifty tasks of JaxBench, with published times and what is known to be weak about them."""

from __future__ import annotations

from maxkernel.suites.entry import Entry, Published, Soundness
from maxkernel.suites.jaxbench.holes import PUBLISHED

EDITIONS = ("hardened", "published", "f32")
"""`published`: bfloat16 throughout and the original inputs, as the times were taken. `f32`: the k
tasks in float32, per-task tolerances. `hardened`: bfloat16, inputs and tolerances that shortcuts
fail."""

SOURCE = (
    "JAXBench benchmark/results.csv (github.com/aryatschand/JAXBench): one TPU v6e, "
    "device-profiler medians, bfloat16"
)
_PUBLISHED_TOLERANCE = (1e-2, 1e-2)
_ZERO_WEIGHTS = "weights were all zero in the published run"
_OWN_WEIGHTS = {"21k", "28k", "31k", "34k"}
"""k tasks whose published run had real weights."""

_CAUTIONS = {
    "3p": "the published baseline rotated interleaved pairs; the Pallas kernel pads widths to 256",
    "4p": "the baseline had no batch axis, the Pallas kernel 4 items: do not compare the two",
    "6p": "the Pallas kernel ran on other inputs, head-major pages and no softmax scale",
    "7p": "both times are for 64 sequences of 64 tokens, all contexts 4096, timed eagerly",
    "11p": "inputs were uniform in 7.5e-9; the baseline multiplied fixed windows of rows",
    "42k": f"the published formula returned zeros of shape (4096, 1); {_ZERO_WEIGHTS}",
}
_EXPERTS = {
    "1p": "flash_attention.py",
    "2p": "gqa_attention.py",
    "3p": "mla_attention.py",
    "4p": "splash_attention.py",
    "6p": "paged_attention.py",
    "7p": "ragged_paged_attention.py",
    "8p": "gemm.py",
    "11p": "grouped_matmul.py",
}
_COMPILE_SECONDS = {"3p": 600.0, "33k": 600.0}
"""Compiled alone on one core these take 90 s and more; under load, three times that."""
_SEED_42 = {f"{n}p" for n in range(1, 18)}

_WEAKNESSES = {
    "1p": "late rows average towards zero: dropping the oldest keys is hardly seen",
    "2p": "late rows average towards zero: dropping the oldest keys is hardly seen",
    "4p": "logits have standard deviation 0.02: the running mean of v passes",
    "5p": "the running mean of v passes; the 2 GiB bias need not be read",
    "6p": "zeros pass; lengths are full and the page table is the identity",
    "10p": "the reference evaluates all 8 experts; near-ties of the router flip experts",
    "11p": "all groups are equal: a batched product that ignores group_sizes passes",
    "12p": "rows have unit RMS: skipping the normalisation is wrong on 1 % of the elements",
    "13p": "the mean over 8192 tokens concentrates: the constant 12.58 passes",
    "14p": "not ragged: a batched product",
    "16p": "the memory is gone after three steps: a band of three diagonals passes",
    "17p": "the mask is all ones; gates stay near a half",
    "19k": "97 % of the outputs are 0",
    "21k": "0.75 x times the column sums of W: no matrix product needed",
    "22k": "scale and shift are the identity, the convolution bias cancels",
    "23k": "x times the column sums of W: no matrix product needed; ill-conditioned",
    "24k": "one constant is right on 84 % of the rows",
    "25k": "the mean of a normalised group is 0: the output is mean(shift) whatever x is",
    "26k": "planes of one element: the matrix product is dead code",
    "28k": "bias, scale, shift and factor are the identity",
    "29k": "scale and shift are the identity",
    "31k": "the bias cancels, scale and shift are the identity; half of the outputs are 0",
    "32k": "the output is 7.194 +- 0.003: a constant passes",
    "34k": "scale and shift are the identity; heavy tails",
    "36k": "sums of 8192 sigmoids vary by 0.24 %: a constant passes",
    "38k": "entries average 1.2e-4 against a tolerance of 1e-2: zeros pass",
    "39k": "averages of noise: a constant per channel passes",
    "40k": "scale and shift are the identity; only 12288 numbers are distinct",
    "42k": "GELU of values near -3.9: zeros are right on 86 % of the elements",
    "43k": "as 38k; batch-norm parameters are the identity",
    "44k": "outputs stay within 0.35",
    "45k": "scale and shift are the identity",
    "46k": "one constant is right on 88 % of the pixels",
    "48k": "batch-norm parameters and the divisor are the identity",
    "49k": "the maximum of pooled GELUs varies little between rows",
    "50k": "as 38k: zeros pass",
}


def _task(
    name: str,
    family: str,
    soundness: Soundness,
    xla_ms: float,
    pallas_ms: float | None = None,
    f32: tuple[float, float] = _PUBLISHED_TOLERANCE,
) -> Entry:
    short, _, rest = name.partition("_")
    zero = short.endswith("k") and short not in _OWN_WEIGHTS
    limit = _COMPILE_SECONDS.get(short)
    caution = _CAUTIONS.get(short, _ZERO_WEIGHTS if zero else "")
    return Entry(
        name=name,
        file=f"t{short.zfill(3)}_{rest.lower()}.py",
        family=family,
        soundness=soundness,
        weakness=_WEAKNESSES.get(short, ""),
        published=Published("v6e", xla_ms, pallas_ms, SOURCE, caution),
        tolerances={"published": _PUBLISHED_TOLERANCE, "f32": f32},
        expert=_EXPERTS.get(short, ""),
        holes={"published": PUBLISHED[short]} if short in PUBLISHED else {},
        compile_seconds=dict.fromkeys(EDITIONS, limit) if limit is not None else {},
        seed=42 if short in _SEED_42 else 0,
    )


ENTRIES = (
    _task("1p_Flash_Attention", "attention", "usable", 22.9762, 6.5106, (0.05, 0.01)),
    _task("2p_GQA_Attention", "attention", "usable", 50.3364, 15.2735, (0.05, 0.05)),
    _task("3p_MLA_Attention", "attention", "sound", 19.8843, 20.6213, (0.05, 0.01)),
    _task("4p_Sparse_Attention", "attention", "broken", 5.6623, 6.949),
    _task("5p_Flex_Attention", "attention", "broken", 37.1101),
    _task("6p_Paged_Attention", "paged_attention", "broken", 7.7828, 3.1142),
    _task("7p_Ragged_Paged_Attention", "paged_attention", "sound", 48.4853, 2.9829),
    _task("8p_GEMM", "matmul", "sound", 5.3218, 5.4052),
    _task("9p_SwiGLU_MLP", "mlp", "sound", 16.4977, None, (0.1, 0.1)),
    _task("10p_Sparse_MoE", "moe", "usable", 30.7251, None, (0.1, 0.1)),
    _task("11p_Megablox_GMM", "grouped_matmul", "weak", 3.0404, 1.9168),
    _task("12p_RMSNorm", "norm", "usable", 1.1385),
    _task("13p_Cross_Entropy", "loss", "broken", 14.2096),
    _task("14p_Ragged_Dot", "grouped_matmul", "usable", 1.2445),
    _task("15p_RetNet_Retention", "linear_attention", "sound", 12.2),
    _task("16p_Mamba2_SSD", "linear_attention", "broken", 28.2603, None, (0.05, 0.01)),
    _task("17p_Triangle_Multiplication", "triangle", "usable", 14.5211),
    _task("18k_Conv2D_ReLU_BiasAdd", "conv", "sound", 1.7671),
    _task("19k_Matmul_Subtract_Multiply_ReLU", "matmul", "weak", 0.6297),
    _task("20k_Gemm_Multiply_LeakyReLU", "matmul", "sound", 0.6337),
    _task("21k_Gemm_Divide_Sum_Scaling", "matmul_reduce", "collapses", 0.6788, None, (0.1, 0.1)),
    _task("22k_Conv2d_InstanceNorm_Divide", "conv_norm", "usable", 2.8542),
    _task("23k_Matmul_Sum_Max_AvgPool_LogSumExp_LogSumExp", "matmul_reduce", "collapses", 0.7273),
    _task("24k_Matmul_Scale_ResidualAdd_Clamp_LogSumExp_Mish", "matmul_reduce", "weak", 0.7905),
    _task("25k_Conv3d_GroupNorm_Mean", "conv_norm", "broken", 0.3383),
    _task("26k_BMM_InstanceNorm_Sum_ResidualAdd_Multiply", "matmul_norm", "broken", 0.6856),
    _task("27k_Matmul_Mish_Mish", "matmul", "sound", 0.7829),
    _task(
        "28k_ConvTranspose3d_LayerNorm_GELU_Scaling",
        "conv_norm",
        "usable",
        14.7864,
        None,
        (0.05, 0.01),
    ),
    _task("29k_Matmul_Swish_Sum_GroupNorm", "matmul_norm", "usable", 1.1193),
    _task("30k_Matmul_Scaling_ResidualAdd", "matmul", "sound", 0.644),
    _task("31k_Gemm_BatchNorm_GELU_ReLU", "matmul_norm", "usable", 3.7396, None, (0.05, 0.01)),
    _task("32k_Gemm_Sigmoid_LogSumExp", "matmul_reduce", "broken", 0.5503),
    _task("33k_Conv3d_Mish_Tanh", "conv", "sound", 2.4173),
    _task("34k_Conv2d_Activation_BatchNorm", "conv_norm", "usable", 1.5584, None, (0.1, 0.01)),
    _task("35k_Gemm_Scaling_Hardtanh_GELU", "matmul", "sound", 0.6636),
    _task("36k_Matmul_Sigmoid_Sum", "matmul_reduce", "broken", 0.7202),
    _task("37k_Matmul_Swish_Scaling", "matmul", "sound", 0.6426),
    _task("38k_Matmul_Dropout_Softmax", "matmul_softmax", "broken", 0.8448),
    _task("39k_Conv2d_GELU_GlobalAvgPool", "conv", "broken", 1.3322),
    _task("40k_Gemm_GroupNorm_Min_BiasAdd", "matmul_norm", "usable", 1.417),
    _task("41k_Gemm_Add_ReLU", "matmul", "sound", 0.6292),
    _task("42k_Gemm_Max_Subtract_GELU", "matmul_reduce", "weak", 0.6274),
    _task("43k_Gemm_BatchNorm_Scaling_Softmax", "matmul_softmax", "broken", 0.9111),
    _task("44k_Matmul_Divide_GELU", "matmul", "usable", 0.6599),
    _task(
        "45k_Gemm_GroupNorm_Swish_Multiply_Swish",
        "matmul_norm",
        "usable",
        1.4063,
        None,
        (0.05, 0.01),
    ),
    _task("46k_Conv2d_GroupNorm_Tanh_HardSwish_ResidualAdd_LogSumExp", "conv_norm", "weak", 1.011),
    _task("47k_Matmul_Add_Swish_Tanh_GELU_Hardtanh", "matmul", "sound", 0.695),
    _task("48k_Matmul_BatchNorm_BiasAdd_Divide_Swish", "matmul", "usable", 0.6642),
    _task("49k_Matmul_AvgPool_GELU_Scale_Max", "matmul_reduce", "usable", 0.8563),
    _task("50k_Matmul_GELU_Softmax", "matmul_softmax", "broken", 0.8537),
)
