"""Rewrites of source: what they change, what they leave alone, and that the result is Python."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from maxkernel.engineers import rewrites
from maxkernel.engineers.builtin import BuiltinMover
from maxkernel.targets import get_target
from maxkernel.types import (
    Candidate,
    Design,
    Diagnosis,
    Evaluation,
    Graph,
    Plan,
    TaskInfo,
    Tolerance,
)

KERNEL = """
import functools
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {"block": (256, 128)}


def gelu(x):
    return 0.5 * x * (1.0 + jnp.tanh(x))


def body(x_ref, out_ref, wide_ref, acc_ref, *, rows):
    def chunk(i, carry):
        at = pl.ds(i * rows, rows)
        wide_ref[at, :] = gelu(gelu(x_ref[at, :]))
        acc_ref[...] += wide_ref[at, :]
        total = jnp.sum(wide_ref[at, :], axis=1, keepdims=True)
        out_ref[at, :] = (wide_ref[at, :] + 1.0) / total
        return carry

    jax.lax.fori_loop(0, x_ref.shape[0] // rows, chunk, 0)


def kernel(x, *, block=256):
    m, n = x.shape
    half = m / 2
    return pl.pallas_call(
        functools.partial(body, rows=8),
        grid=(pl.cdiv(m, block), n // 128),
        in_specs=[pl.BlockSpec((block, 128), lambda i, j: (i, 0))],
        out_specs=pl.BlockSpec((block, 128), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_shapes=[
            pltpu.VMEM((block, 128), jnp.float32),
            pltpu.VMEM((block, 128), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(x)
"""
CASES: dict[str, tuple[Callable[[str], str | None], list[str], list[str]]] = {
    "unroll": (lambda s: rewrites.unroll(s, 4), ["chunk, 0, unroll=4)"], []),
    "divide once": (
        rewrites.divide_once,
        ["(wide_ref[at, :] + 1.0) * (1.0 / total)"],
        ["+ 1.0) / total"],
    ),
    "approximate": (
        rewrites.approximate_reciprocals,
        ["* pl.reciprocal(total, approx=True)", "half = m / 2"],
        ["/ total"],
    ),
    "activations": (
        rewrites.narrow_activations,
        ["gelu(gelu((x_ref[at, :]).astype(jnp.bfloat16))).astype(jnp.float32)"],
        [],
    ),
    "scratch": (
        rewrites.narrow_scratch,
        [
            "wide_ref[at, :] = (gelu(gelu(x_ref[at, :]))).astype(jnp.bfloat16)",
            "+= wide_ref[at, :].astype(jnp.float32)",
            "jnp.sum(wide_ref[at, :].astype(jnp.float32), axis=1",
            "pltpu.VMEM((block, 128), jnp.bfloat16),\n            pltpu.VMEM((block, 128), jnp.f",
        ],
        ["acc_ref[...].astype"],
    ),
    "one buffer": (
        rewrites.single_buffers,
        ["lambda i, j: (i, 0), pipeline_mode=pl.Buffered(1))"],
        ["(i, j), pipeline_mode"],
    ),
    "swap": (
        rewrites.swap_axes,
        ["grid=(n // 128, pl.cdiv(m, block))", "lambda j, i: (i, 0)", "lambda j, i: (i, j)"],
        ["lambda i, j"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rewrite_changes_what_it_says(name: str) -> None:
    rewrite, there, gone = CASES[name]
    changed = rewrite(KERNEL)
    assert changed is not None
    ast.parse(changed)
    for text in there:
        assert text in changed
    for text in gone:
        assert text not in changed


@pytest.mark.parametrize("name", CASES)
def test_a_rewrite_that_does_not_apply_says_so(name: str) -> None:
    plain = "def kernel(x):\n    return x / 2\n"
    assert CASES[name][0](plain) is None


def test_a_dependent_grid_is_not_swapped() -> None:
    assert (
        rewrites.swap_axes(KERNEL.replace('("parallel", "parallel")', '("parallel", "x")')) is None
    )


def test_text_beyond_ascii_keeps_its_place() -> None:
    changed = rewrites.unroll("# Größe µ\n" + KERNEL.replace("chunk, 0)", "chunk, 0)  # ä"), 2)
    assert changed is not None and "chunk, 0, unroll=2)  # ä" in changed and "Größe µ" in changed


def moves_for(limit: str, target: str = "v6e", plan: Plan | None = None) -> list[str]:
    design = Design(1, plan or Plan("f", "s", "r"), KERNEL, "plan")
    evaluation = Evaluation(Candidate(KERNEL), "t", target, "none")
    diagnosis = Diagnosis(limit, "")  # type: ignore[arg-type]
    found = BuiltinMover().moves(INFO, design, evaluation, diagnosis, get_target(target))
    return [move.name for move in found]


INFO = TaskInfo(
    "t", (), (), (), (), (), {}, {}, Tolerance(0, 0), Graph((), (), (), ()), 0.0, 0.0, b""
)


def test_moves_follow_the_profile() -> None:
    assert any("unroll" in name for name in moves_for("issue"))
    assert not any("unroll" in name for name in moves_for("hbm"))
    assert any("other order" in name for name in moves_for("hbm"))
    assert any("bfloat16" in name and "activations" in name for name in moves_for("vector"))
    assert not any("activations" in name for name in moves_for("vector", "v5e"))


def test_further_values_come_after_the_first() -> None:
    assert [n for n in moves_for("issue") if "unroll" in n] == [
        "refine: unroll inner loops 4 times"
    ]
    made = Plan("f", "s", "r", {"unroll": 4})
    assert sorted(n for n in moves_for("issue", plan=made) if "unroll" in n) == [
        "refine: unroll inner loops 2 times",
        "refine: unroll inner loops 8 times",
    ]


def test_two_orders_of_the_same_moves_are_one_source() -> None:
    one = rewrites.unroll(rewrites.narrow_scratch(KERNEL) or "", 4)
    two = rewrites.narrow_scratch(rewrites.unroll(KERNEL, 4) or "")
    assert one == two is not None


def test_a_merge_brings_in_the_other_ones_moves() -> None:
    mine = Design(1, Plan("f", "s", "r", {"unroll": 4}), rewrites.unroll(KERNEL, 4) or "", "m")
    scratch = rewrites.narrow_scratch(KERNEL) or ""
    other = Design(2, Plan("f", "s", "r", {"narrow_scratch": True}), scratch, "m")
    ((partner, move),) = BuiltinMover().merges(INFO, mine, (other,), get_target("v6e"))
    assert partner is other and move.plan.options == {"unroll": 4, "narrow_scratch": True}
    assert move.source == rewrites.narrow_scratch(mine.source)
    stranger = Design(3, Plan("f", "another", "r", {"narrow_scratch": True}), scratch, "m")
    assert BuiltinMover().merges(INFO, mine, (stranger,), get_target("v6e")) == []
