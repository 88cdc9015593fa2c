"""Moves that change a kernel's structure: what they write is right, clean, and refuses the rest."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import compile_for
from emitted_style import assert_clean
from kernels import NO_TASK, TEAM, draw, load, sources

from maxkernel.api import load_task, open_session
from maxkernel.engineers import rewrites
from maxkernel.engineers.builtin import BuiltinMover
from maxkernel.targets import get_target
from maxkernel.types import (
    ArtifactFacts,
    Candidate,
    Design,
    Diagnosis,
    Evaluation,
    PallasCall,
    Plan,
)

BF16, F32 = "bfloat16", "float32"


@pytest.fixture(scope="module")
def session():
    with open_session("v6e", use_cache=False) as opened:
        yield opened


def softmax(x, bias):
    return jax.nn.softmax(x + bias, axis=-1)


def gated(x, gate, scale):
    size = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    return x * size * scale * jax.nn.silu(gate)


def product(x, w, bias, residual):
    return jax.nn.relu(jnp.dot(x, w, preferred_element_type=jnp.float32) + bias) + residual


def softmax_of_product(x, w):
    return jax.nn.softmax(jnp.dot(x, w, preferred_element_type=jnp.float32), axis=-1)


def attention(q, k, v):
    s = jnp.einsum("hqd,hkd->hqk", q, k, preferred_element_type=jnp.float32)
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(s * 0.1, axis=-1).astype(v.dtype), v)


def batched(x, w):
    return jnp.einsum("bmk,bkn->bmn", x, w)


ROWS = (((768, 256), F32), ((256,), F32))
GATED = (((512, 256), F32), ((512, 256), F32), ((256,), F32))
PRODUCT = (((512, 1024), BF16), ((1024, 512), BF16), ((512,), F32), ((512, 512), BF16))
WIDE = (((512, 256), BF16), ((256, 512), BF16))
BATCH = (((3, 256, 256), BF16), ((3, 256, 256), BF16))
HEADS = tuple(((4, 256, 128), BF16) for _ in range(3))
SMALL = {
    softmax: {"block_rows": 128, "chunk_rows": 64},
    gated: {"block_rows": 128, "chunk_rows": 64},
    product: {"block_m": 256, "block_n": 256, "block_k": 256},
    softmax_of_product: {"block_m": 256, "block_n": 256},
    attention: {"block": 128},
    batched: {"block_m": 128, "block_n": 128},
}
"""Constants with several blocks along every axis."""
CASES = {
    "rows": (softmax, ROWS),
    "ragged rows": (softmax, (((700, 256), F32), ((256,), F32))),
    "gate": (gated, GATED),
    "product": (product, PRODUCT),
    "ragged product": (
        product,
        (((300, 1024), BF16), ((1024, 500), BF16), ((500,), F32), ((300, 500), BF16)),
    ),
    "whole rows": (softmax_of_product, WIDE),
    "attention": (attention, HEADS),
    "batch": (batched, BATCH),
}
MOVES = {
    "ahead": lambda source: rewrites.fetch_ahead(source, 3),
    "whole": rewrites.whole_blocks,
    "both": lambda source: rewrites.fetch_ahead(rewrites.whole_blocks(source) or "", 4),
}
APPLY = [
    *((move, case) for move in MOVES for case in ("product", "ragged product", "whole rows")),
    *(("ahead", case) for case in ("rows", "ragged rows", "gate", "attention", "batch")),
]


def small(reference, source):
    """The constants of several blocks that this source declares."""
    return {name: value for name, value in SMALL[reference].items() if f'"{name}"' in source}


@pytest.mark.parametrize(("move", "case"), APPLY)
def test_computes_the_same(move, case):
    """Several blocks, sizes that blocks divide and others: the same numbers as before."""
    reference, specs = CASES[case]
    args = draw(specs, seed=1)
    source = sources(reference, *specs)[0]
    changed = MOVES[move](source)
    assert changed is not None and changed != source
    assert_clean(changed)
    tunables = small(reference, source)
    before, after = (
        np.asarray(load(text)(*args, **small(reference, text)), np.float32)
        for text in (source, changed)
    )
    assert tunables and np.isfinite(before).all()
    np.testing.assert_allclose(after, before, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("move", ["whole"])
@pytest.mark.parametrize("case", ["rows", "gate", "attention"])
def test_leaves_alone_what_has_no_halved_chunks(move, case):
    reference, specs = CASES[case]
    assert MOVES[move](sources(reference, *specs)[0]) is None


@pytest.mark.parametrize(
    ("target", "case", "move"),
    [
        ("v6e", "gate", "ahead"),
        ("v6e", "product", "both"),
        ("v6e", "attention", "ahead"),
        ("v6e", "batch", "ahead"),
        ("v5e", "whole rows", "both"),
        ("v7x", "ragged rows", "ahead"),
    ],
)
def test_compiles(target, case, move):
    reference, specs = CASES[case]
    source = sources(reference, *specs, target=target)[0]
    changed = MOVES[move](source)
    assert changed is not None
    compile_for(changed, specs, target, **small(reference, changed))


def test_ragged_blocks_stay_with_the_pipeline():
    """700 rows are not whole blocks of 128: only the bias has buffers of its own."""
    reference, specs = CASES["ragged rows"]
    source = MOVES["ahead"](sources(reference, *specs)[0])
    assert source is not None
    scope: dict[str, object] = {}
    exec(compile(source, "<emitted>", "exec"), scope)
    slots, spec = scope["slots"], jax.experimental.pallas.BlockSpec
    x, bias = (jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape, dtype in specs)
    assert slots(x, spec((128, 256), lambda i: (i, 0)), (0,), (6,)) == 0  # type: ignore[operator]
    assert slots(x, spec((140, 256), lambda i: (i, 0)), (0,), (5,)) == 3  # type: ignore[operator]
    assert slots(bias, spec((256,), lambda i: (0,)), (), (6,)) == 1  # type: ignore[operator]
    assert slots(x, spec((140, 256), lambda i: (i, 0)), (), (5,)) == 0  # type: ignore[operator]


def test_what_earlier_axes_repeat_stays_if_it_fits():
    source = MOVES["ahead"](sources(product, *PRODUCT)[0])
    assert source is not None
    scope: dict[str, object] = {}
    exec(compile(source, "<emitted>", "exec"), scope)
    slots, spec = scope["slots"], jax.experimental.pallas.BlockSpec((1024, 128), None)
    inside = jax.ShapeDtypeStruct((1024, 512), jnp.bfloat16)
    beyond = jax.ShapeDtypeStruct((1024, 2**15), jnp.bfloat16)
    assert slots(inside, spec, (1,), (2, 4)) == 4  # type: ignore[operator]
    assert slots(inside, spec, (1,), (1, 4)) == 3  # type: ignore[operator]
    assert slots(beyond, spec, (1,), (2, 256)) == 0  # type: ignore[operator]


HAND = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {"block": (256, 128)}


def body(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def kernel(x, *, block=256):
    return pl.pallas_call(
        body,
        grid=(4,),
        in_specs=[pl.BlockSpec((block, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((block, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)
"""


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        ("(block, 128), lambda i: (i, 0))],", "(block, 128), where)],"),
        ("lambda i: (i, 0))],", "lambda i: (i // 2, 0))],"),
        ("lambda i: (i, 0))],", "lambda i: (i, 0), memory_space=pltpu.SMEM)],"),
        ("lambda i: (i, 0))],", "lambda i, j=0: (i, 0))],"),
        ("        grid=(4,),", "        grid=(4,), input_output_aliases={0: 0},"),
        ("        grid=(4,),", "        grid=steps,"),
        ("import jax.numpy as jnp\n", ""),
        ("    out_ref[...]", "    slots = 1\n    out_ref[...]"),
    ],
)
def test_fetching_refuses_what_it_does_not_understand(there, instead):
    assert rewrites.fetch_ahead(HAND, 3) is not None
    assert there in HAND
    assert rewrites.fetch_ahead(HAND.replace(there, instead, 1), 3) is None


def test_another_depth_is_another_constant():
    three = rewrites.fetch_ahead(HAND, 3)
    assert three is not None and rewrites.fetch_ahead(three, 3) is None
    assert rewrites.fetch_ahead(three, 4) == rewrites.fetch_ahead(HAND, 4)


def test_two_orders_of_structural_moves_are_one_source():
    source = sources(softmax_of_product, *WIDE)[0]
    ahead, whole = MOVES["ahead"](source), rewrites.whole_blocks(source)
    assert ahead is not None and whole is not None
    assert rewrites.whole_blocks(ahead) == MOVES["ahead"](whole)


def proposed(source, limit="hbm", target="v6e", gain=1.0, grid=(4, 4)):
    """Names of the moves from a design, by what they are expected to gain."""
    facts = ArtifactFacts((PallasCall("body", grid),))
    evaluation = Evaluation(Candidate(source), "t", target, "none", facts=facts)
    design = Design(1, Plan("f", "s", "r"), source, "plan")
    diagnosis = Diagnosis(limit, "", {"gain": gain})
    found = BuiltinMover().moves(NO_TASK, design, evaluation, diagnosis, get_target(target))
    return {move.name.removeprefix("refine: "): move.gain for move in found}


def test_own_copies_are_for_one_core_and_promise_part_of_the_stall():
    name = "fetch operands ahead by own copies, 3 buffers each"
    assert proposed(HAND)[name] > proposed(HAND, gain=0.02)[name] == pytest.approx(0.01)
    assert name not in proposed(HAND, target="v5p")


def test_an_axis_of_one_step_is_not_walked_in_another_order():
    source = sources(product, *PRODUCT)[0]
    assert "walk the grid in the other order" in proposed(source)
    assert "walk the grid in the other order" not in proposed(source, grid=(1, 4))


@pytest.mark.parametrize(
    ("name", "constants", "move"),
    [
        ("rows_gated_rms", {"block_rows": 256}, "ahead"),
        ("matmul_gelu_softmax", {"block_m": 512, "block_n": 512}, "both"),
    ],
)
def test_the_judge_finds_it_right_and_faster(session, name, constants, move):
    """Waits, semaphores, races and numbers at check size; the clock at full size."""
    prepared = session.judge.prepare(load_task(f"benchmarks/search/tasks/{name}.py"))
    plan = TEAM.planner.plan(prepared.info, session.judge.target, ())[0]
    source = TEAM.implementer.implement(prepared.info, plan, session.judge.target)
    changed = MOVES[move](source)
    assert changed is not None
    before, after = (
        session.judge.evaluate(prepared, Candidate(text, constants)) for text in (source, changed)
    )
    assert after.accepted, after.failure
    assert after.time.seconds < 0.99 * before.time.seconds


def test_whole_blocks_promise_little_where_the_matrix_units_are_busy():
    """On large products (JaxBench 50k, 27k) chunks cost a matrix-bound kernel next to nothing."""
    source, name = sources(product, *PRODUCT)[0], "one product per block, not several chunks"
    assert 0 < proposed(source, "mxu")[name] < proposed(source, "hbm")[name]
