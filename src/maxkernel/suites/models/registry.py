"""Twenty-four workloads of current open models and five variants, without published times."""

from __future__ import annotations

from maxkernel.suites.entry import Entry

EDITIONS = ("hardened",)
_COMPILE_SECONDS = {"w04": 600.0, "w15": 600.0, "w24": 600.0}
"""Long programs: XLA needs minutes for them on a busy machine."""


def _task(name: str, family: str, expert: str = "") -> Entry:
    limit = _COMPILE_SECONDS.get(name.partition("_")[0])
    limits: dict[str, float] = dict.fromkeys(EDITIONS, limit) if limit is not None else {}
    return Entry(name=name, file=f"{name}.py", family=family, expert=expert, compile_seconds=limits)


ENTRIES = (
    _task("w01_llama3_8b_prefill", "attention"),
    _task("w02_llama3_70b_paged_decode", "paged_attention"),
    _task("w03_llama3_70b_mixed_paged", "paged_attention"),
    _task("w04_qwen3_32b_qk_norm_rope", "attention"),
    _task("w05_gemma2_27b_softcap", "attention"),
    _task("w05b_gemma2_27b_softcap_global", "attention"),
    _task("w06_gemma3_27b_sliding_window", "attention"),
    _task("w07_gpt_oss_120b_sinks", "attention"),
    _task("w07b_gpt_oss_120b_sinks_full", "attention"),
    _task("w08_deepseek_v3_mla_prefill", "attention", "mla_prefill.py"),
    _task("w09_deepseek_v3_mla_decode", "paged_attention"),
    _task("w09b_deepseek_v3_mla_decode_page_1024", "paged_attention"),
    _task("w10_deepseek_v4_sparse_attention", "sparse_attention"),
    _task("w11_qwen3_next_delta_prefill", "linear_attention"),
    _task("w12_qwen3_next_delta_decode", "linear_attention"),
    _task("w13_mamba2_ssd", "linear_attention"),
    _task("w14_qwen3_235b_experts", "moe"),
    _task("w15_deepseek_v3_experts", "moe"),
    _task("w16_gpt_oss_120b_experts", "moe"),
    _task("w16b_gpt_oss_120b_experts_mxfp4", "moe"),
    _task("w17_mixtral_8x7b_experts", "moe"),
    _task("w18_llama3_405b_swiglu_shard", "mlp"),
    _task("w19_rmsnorm_residual", "norm"),
    _task("w20_llama3_rope_scaled", "elementwise"),
    _task("w21_llama3_8b_cross_entropy", "loss"),
    _task("w22_gemma3_27b_cross_entropy", "loss"),
    _task("w22b_gemma2_27b_cross_entropy", "loss"),
    _task("w23_llama3_70b_int8_matmul", "quantised_matmul"),
    _task("w24_deepseek_v3_fp8_matmul", "quantised_matmul"),
)
