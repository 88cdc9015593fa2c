"""Split-k as a rewrite: the same numbers, only plain sums, and a result that the judge accepts."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from emitted_style import assert_clean
from kernels import NO_TASK, draw, load, sources

from maxkernel.api import open_session
from maxkernel.engineers import rewrites
from maxkernel.engineers.builtin import BuiltinMover
from maxkernel.targets import get_target
from maxkernel.tasks import task_from_text
from maxkernel.types import (
    ArtifactFacts,
    Candidate,
    Design,
    Diagnosis,
    Evaluation,
    PallasCall,
    Plan,
    Time,
)

PLAIN = """\
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {"block_k": (128, 256)}


def body(x_ref, w_ref, out_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        out_ref[...] = jnp.tanh(acc_ref[...]).astype(out_ref.dtype)


def kernel(x, w, *, block_k=128):
    m, k = x.shape
    n = w.shape[1]
    return pl.pallas_call(
        body,
        grid=(m // 128, n // 128, k // block_k),
        in_specs=[
            pl.BlockSpec((128, block_k), lambda i, j, s: (i, s)),
            pl.BlockSpec((block_k, 128), lambda i, j, s: (s, j)),
        ],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, s: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, w)
"""
"""A product as a person would write it."""
BF16, F32 = "bfloat16", "float32"
TASK = """
import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x, w):
    return jnp.tanh(jnp.dot(x, w, preferred_element_type=jnp.float32)).astype(x.dtype)


def inputs(key):
    return draw(key, 2048)


def check_inputs(key):
    return draw(key, 1024)


def draw(key, k):
    one, two = jax.random.split(key)
    x = jax.random.normal(one, (128, k), jnp.bfloat16)
    return x, (jax.random.normal(two, (k, 128)) * k**-0.5).astype(jnp.bfloat16)
"""


def product(x, w, bias):
    return jnp.tanh(jnp.dot(x, w, preferred_element_type=jnp.float32) + bias)


@pytest.mark.parametrize(("parts", "block"), [(2, 128), (2, 256), (3, 128), (2, 512), (2, 1024)])
def test_a_persons_kernel_computes_the_same(parts: int, block: int) -> None:
    """Parts of equal and of different lengths, and too few steps to divide."""
    changed = rewrites.split_sum(PLAIN, parts)
    assert changed is not None and f"PARTS = {parts}" in changed
    assert_clean(changed)
    x, w = draw((((256, 1024), BF16), ((1024, 256), BF16)), seed=1)
    before, after = (np.asarray(load(s)(x, w, block_k=block), np.float32) for s in (PLAIN, changed))
    np.testing.assert_allclose(after, before, rtol=1e-2, atol=1e-2)


def test_the_familys_kernel_computes_the_same() -> None:
    specs = (((300, 1024), BF16), ((1024, 256), BF16), ((256,), F32))
    source = sources(product, *specs, target="v5p", only="k innermost")[0]
    changed = rewrites.split_sum(source, 2)
    assert changed is not None
    assert_clean(changed)
    args, small = draw(specs, seed=2), {"block_m": 128, "block_n": 128, "block_k": 256}
    before, after = (np.asarray(load(s)(*args, **small), np.float32) for s in (source, changed))
    np.testing.assert_allclose(after, before, rtol=1e-2, atol=1e-4)


OTHERS = {
    "a running maximum": ("acc_ref[...] += jnp.dot", "acc_ref[...] *= jnp.dot"),
    "a start with a bias": ("jnp.zeros_like(acc_ref)", "w_ref[0:1, :] + acc_ref[...] * 0"),
    "a start that is no zero": ("jnp.zeros_like(acc_ref)", "jnp.ones((128, 128))"),
    "the result at every step": ("(2) == pl.num_programs(2) - 1", "(2) >= 0"),
    "a mask by step": ("jnp.dot(x_ref[...],", "jnp.dot(x_ref[...] * pl.program_id(2),"),
    "a sum shown to others": (
        "    acc_ref[...] += ",
        "    help(acc_ref)\n    acc_ref[...] += ",
    ),
    "no order told": ('"arbitrary"', '"parallel"'),
    "two scratch arrays": ("[pltpu.VMEM(", "[pltpu.VMEM((8, 128), jnp.float32), pltpu.VMEM("),
    "a narrow sum": ("jnp.float32)],", "jnp.bfloat16)],"),
    "a guard that is not known": ("pl.program_id(2) == 0", "pl.program_id(2) == x_ref[0, 0]"),
    "more in the call": ("        out_shape=", "        name='k',\n        out_shape="),
}


@pytest.mark.parametrize("name", OTHERS)
def test_leaves_alone_what_is_no_plain_sum(name: str) -> None:
    old, new = OTHERS[name]
    assert old in PLAIN
    assert rewrites.split_sum(PLAIN.replace(old, new), 2) is None


def gains(target: str, *grid: int) -> list[float]:
    call = PallasCall("body", grid, block_bytes=1 << 20, scratch_bytes=1 << 16)
    evaluation = Evaluation(
        Candidate(PLAIN), "t", target, "none",
        facts=ArtifactFacts(pallas_calls=(call,)), time=Time(1e-4, "simulated"),
    )  # fmt: skip
    design = Design(1, Plan("f", "s", "r"), PLAIN, "plan")
    found = BuiltinMover().moves(
        NO_TASK, design, evaluation, Diagnosis("mxu", ""), get_target(target)
    )
    return [move.gain for move in found if "side by side" in move.name]


def test_is_proposed_where_a_core_would_idle() -> None:
    """One step beside a long sum, on chips with two cores; more the longer it takes."""
    (alone,), (three,) = gains("v5p", 1, 1, 16), gains("v5p", 3, 1, 16)
    assert 0.2 < alone < 0.7 and 0 < three < alone
    assert gains("v4", 1, 1, 16) and not gains("v6e", 1, 1, 16)
    assert not gains("v5p", 2, 1, 16) and not gains("v5p", 1, 1, 3)


def test_the_judge_accepts_a_divided_sum() -> None:
    task = task_from_text("long_sum", "maxkernel", "t.py", {"t.py": TASK})
    changed = rewrites.split_sum(PLAIN, 2)
    with open_session("v5p", use_cache=False) as session:
        prepared = session.judge.prepare(task)
        found = session.judge.evaluate(prepared, Candidate(changed or ""))
    assert found.accepted, found.failure
    assert found.facts is not None
    assert [call.grid for call in found.facts.pallas_calls] == [(1, 1, 2, 8), (1, 1)]
