"""Skipping masked blocks as a rewrite: the same numbers, fewer blocks, and nothing where it may
not be done."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernels import NO_TASK, draw, load

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
)

KERNEL = '''\
import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

LOW = -1e30


def flash(q_ref, k_ref, v_ref, out_ref, m_ref, l_ref, acc_ref, *, size, window):
    """One block of scores."""
    i, j = pl.program_id(1), pl.program_id(2)

    @pl.when(j == 0)
    def init():
        m_ref[...] = jnp.full_like(m_ref, LOW)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    s = jax.lax.dot_general(
        q_ref[0], k_ref[0], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
    )
    start = i * size
    rows = start + jax.lax.broadcasted_iota(jnp.int32, (size, size), 0)
    cols = j * size + jax.lax.broadcasted_iota(jnp.int32, (size, size), 1)
    mask = (rows >= cols) & (rows - cols < window)
    s = jnp.where(mask, s, LOW)
    top = jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))
    p = jnp.exp(s - top)
    fade = jnp.exp(m_ref[...] - top)
    # The sums so far fade as the maximum grows.
    l_ref[...] = fade * l_ref[...] + jnp.sum(p, axis=1, keepdims=True)
    acc_ref[...] = fade * acc_ref[...] + jnp.dot(
        p.astype(v_ref.dtype), v_ref[0], preferred_element_type=jnp.float32
    )
    m_ref[...] = top

    @pl.when(j == pl.num_programs(2) - 1)
    def finish():
        out_ref[0] = (acc_ref[...] / l_ref[...]).astype(out_ref.dtype)


def kernel(q, k, v, *, size=128):
    heads, n, d = q.shape
    size = min(size, n)
    mine = pl.BlockSpec((1, size, d), lambda h, i, j: (h, i, 0))
    other = pl.BlockSpec((1, size, d), lambda h, i, j: (h, j, 0))
    return pl.pallas_call(
        functools.partial(flash, size=size, window=WINDOW),
        grid=(heads, n // size, n // size),
        in_specs=[mine, other, other],
        out_specs=mine,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[
            pltpu.VMEM((size, 1), jnp.float32),
            pltpu.VMEM((size, 1), jnp.float32),
            pltpu.VMEM((size, d), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(q, k, v)
'''
"""Attention as a person would write it: every block of scores is computed."""
CAUSAL, BAND = KERNEL.replace("WINDOW", "2**20"), KERNEL.replace("WINDOW", "200")
SPECS = tuple(((2, 512, 128), "float32") for _ in range(3))
TASK = """
import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 2e-2, "rtol": 2e-2}


def reference(q, k, v):
    s = jnp.einsum("hqd,hkd->hqk", q, k, preferred_element_type=jnp.float32)
    visible = jnp.tril(jnp.ones(s.shape[1:], bool))
    p = jax.nn.softmax(jnp.where(visible, s, -1e30), axis=-1)
    return jnp.einsum("hqk,hkd->hqd", p.astype(v.dtype), v)


def inputs(key):
    return draw(key, 2)


def check_inputs(key):
    return draw(key, 1)


def draw(key, heads):
    parts = jax.random.split(key, 3)
    q, k, v = (jax.random.normal(part, (heads, 512, 128), jnp.bfloat16) for part in parts)
    return q * 0.1, k, v
"""


def reference(q, k, v, window):
    s = jnp.einsum("hqd,hkd->hqk", q, k)
    far = jnp.arange(q.shape[1])[:, None] - jnp.arange(q.shape[1])
    p = jax.nn.softmax(jnp.where((far >= 0) & (far < window), s, -1e30), axis=-1)
    return jnp.einsum("hqk,hkd->hqd", p, v)


@pytest.mark.parametrize(("source", "window"), [(CAUSAL, 2**20), (BAND, 200)])
@pytest.mark.parametrize("size", [128, 256, 512])
def test_computes_the_same(source: str, window: int, size: int) -> None:
    changed = rewrites.skip_masked(source)
    assert changed is not None
    q, k, v = draw(SPECS, seed=1)
    wanted = np.asarray(reference(q * 0.1, k, v, window))
    found = np.asarray(load(changed)(q * 0.1, k, v, size=size))
    np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=2e-2)


def test_the_guard_is_true_just_where_a_block_holds_something_visible() -> None:
    changed = rewrites.skip_masked(BAND)
    assert changed is not None
    guard = next(line for line in changed.splitlines() if "visible = " in line)
    condition = compile(guard.split("=", 1)[1].strip(), "<guard>", "eval")
    size, window = 128, 200
    far = np.arange(1024)[:, None] - np.arange(1024)
    mask = (far >= 0) & (far < window)
    for i in range(8):
        for j in range(8):
            block = mask[i * size : (i + 1) * size, j * size : (j + 1) * size]
            names = {"i": i, "j": j, "size": size, "window": window, "start": i * size}
            assert eval(condition, names) == block.any(), (i, j, guard)


def test_scalars_stand_before_the_guard_and_comments_stay() -> None:
    changed = rewrites.skip_masked(CAUSAL) or ""
    assert changed.index("    start = i * size") < changed.index("visible = ")
    assert "        # The sums so far fade" in changed
    assert rewrites.skip_masked(changed) is None


OTHERS = {
    "no mask": ("    s = jnp.where(mask, s, LOW)\n", ""),
    "a mask that is data": ("(mask, s, LOW)", "(q_ref[0, 0, 0] > 0, s, LOW)"),
    "a score that is no lowest": ("mask, s, LOW", "mask, s, 0.0"),
    "a result at every step": ("    m_ref[...] = top\n", "    out_ref[0] = top\n"),
    "a count of steps": ("    m_ref[...] = top\n", "    m_ref[...] = top\n    l_ref[0] += 1\n"),
    "a loop": ("    m_ref[...] = top\n", "    for _ in range(2):\n        m_ref[...] = top\n"),
    "guarded work between": (
        "    mask = (rows",
        "    @pl.when(i > j)\n    def see():\n        pass\n\n    mask = (rows",
    ),
    "a value that is used later": ("acc_ref[...] / l_ref", "fade * acc_ref[...] / l_ref"),
    "a call": ("    m_ref[...] = top\n", "    m_ref[...] = top\n    copy()\n"),
    "no softmax": ("jnp.exp(", "jnp.tanh("),
    "a size that is known later": ("(size, size), 0)", "s.shape, 0)"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_leaves_alone_what_it_cannot_tell(name: str) -> None:
    old, new = OTHERS[name]
    assert old in CAUSAL
    assert rewrites.skip_masked(CAUSAL.replace(old, new)) is None


def gains(source: str, limit: str, *grid: int) -> list[float]:
    facts = ArtifactFacts(pallas_calls=(PallasCall("flash", grid),))
    evaluation = Evaluation(Candidate(source), "t", "v6e", "none", facts=facts)
    design = Design(1, Plan("f", "s", "r"), source, "plan")
    diagnosis = Diagnosis(limit, "")  # type: ignore[arg-type]
    found = BuiltinMover().moves(NO_TASK, design, evaluation, diagnosis, get_target("v6e"))
    return [move.gain for move in found if "masked" in move.name]


def test_is_proposed_by_how_much_it_saves() -> None:
    (many,) = gains(CAUSAL, "mxu", 2, 16, 16)
    (few,) = gains(CAUSAL, "mxu", 2, 2, 2)
    (memory,) = gains(CAUSAL, "hbm", 2, 16, 16)
    assert 0.3 < many < 0.7 and 0 < few < many and 0 < memory < many
    assert not gains(CAUSAL, "mxu", 2, 1, 1)
    assert not gains(CAUSAL.replace("mask, s, LOW", "mask, s, 0.0"), "mxu", 2, 16, 16)


def test_the_judge_accepts_it_and_finds_it_faster() -> None:
    task = task_from_text("causal", "maxkernel", "t.py", {"t.py": TASK})
    sources = CAUSAL, rewrites.skip_masked(CAUSAL) or ""
    with open_session("v6e", use_cache=False) as session:
        prepared = session.judge.prepare(task)
        before, after = (session.judge.evaluate(prepared, Candidate(s)) for s in sources)
    assert before.accepted and after.accepted, after.failure or before.failure
    assert before.time is not None and after.time is not None
    assert after.time.seconds < 0.95 * before.time.seconds
