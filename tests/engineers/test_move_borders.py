"""Moved borders between kernels and XLA: a consumer left out, a producer taken in."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from emitted_style import assert_clean
from graphs import task_info
from kernels import TEAM, assert_equal, draw

from maxkernel.api import open_session
from maxkernel.engineers.builtin.loops import without_loops
from maxkernel.engineers.builtin.regions import moved_borders
from maxkernel.engineers.builtin.units import without_units
from maxkernel.targets import get_target
from maxkernel.tasks import task_from_text
from maxkernel.types import Candidate, Design, Diagnosis, Evaluation, Move, Time

F32 = "float32"
V6E = get_target("v6e")
REFERENCE = '''
def reference(x, g, w1, w2):
    """Rows of one product are summed, those of another have a softmax with it."""
    h = jax.nn.sigmoid(x * g)
    top = jax.nn.logsumexp(h @ w1, axis=1, keepdims=True)
    return jax.nn.softmax((x * g) @ w2 + top, axis=1)
'''
TASK = f"""
import jax
import jax.numpy as jnp

TOLERANCE = {{"atol": 2e-2, "rtol": 2e-2}}

{REFERENCE}

def inputs(key):
    return draw(key, 512)


def check_inputs(key):
    return draw(key, 256)


def draw(key, rows):
    a, b, c, d = jax.random.split(key, 4)
    x, g = jax.random.normal(a, (rows, 256)), jax.random.normal(b, (256,))
    w1, w2 = (jax.random.normal(k, (256, 384)) / 16 for k in (c, d))
    return x, g, w1, w2
"""
scope = {"jax": jax}
exec(REFERENCE, scope)
reference = scope["reference"]
SPECS = (((256, 256), F32), ((256,), F32), ((256, 384), F32), ((256, 384), F32))


@pytest.fixture(scope="module")
def moves() -> dict[str, Move]:
    """The moves of the first plan that leave their source to the implementer."""
    info = task_info(reference, *SPECS)
    plan = TEAM.planner.plan(info, V6E, ())[0]
    source = TEAM.implementer.implement(info, plan, V6E)
    seen = Evaluation(Candidate(source), "t", "v6e", "none", time=Time(1e-5, "simulated"))
    mover = TEAM.mover
    assert plan.family == "regions" and source.count("pallas_call(") == 1 and mover is not None
    design = Design(1, plan, source, "plan")
    found = mover.moves(info, design, seen, Diagnosis("hbm", ""), V6E)
    return {move.name: move for move in found if not move.source}


def source_of(move: Move) -> str:
    return TEAM.implementer.implement(task_info(reference, *SPECS), move.plan, V6E)


def test_a_split_gives_the_other_product_a_kernel(moves: dict[str, Move]) -> None:
    """The first kernel ends with its sums, so the softmax goes with the second product."""
    (split,) = (move for move in moves.values() if "ends" in move.plan.options)
    source = source_of(split)
    assert "dot_general" in split.name and split.gain > 0
    assert source.count("pallas_call(") == 2
    assert_clean(source)
    x, g, w1, w2 = draw(SPECS, seed=3)
    assert_equal(reference, source, (x, g, w1 / 16, w2 / 16))


def test_a_producer_is_taken_in(moves: dict[str, Move]) -> None:
    fused = next(move for move in moves.values() if "logistic" in move.name)
    source = source_of(fused)
    assert "producers" in fused.plan.options and fused.gain > 0
    x, g, w1, w2 = draw(SPECS, seed=4)
    assert_equal(reference, source, (x, g, w1 / 16, w2 / 16))


def test_what_is_saved_follows_from_bytes() -> None:
    """A sum that XLA would write and a kernel would read again: written and read no more."""

    def simple(x, y, w):
        rows = jax.nn.logsumexp((x * y) @ w, axis=1, keepdims=True)
        return jnp.sort(rows * 2.0, axis=0)

    specs = (((512, 256), F32), ((512, 256), F32), ((256, 384), F32))
    info = task_info(simple, *specs)
    plan = TEAM.planner.plan(info, V6E, ())[0]
    found = moved_borders(without_loops(without_units(info)), plan, V6E)
    (taken,) = (m for m in found if m.plan.options.get("producers") == 1)
    assert taken.words.startswith("take mul into")
    # x * y is neither written nor read; x and y are read by the kernel instead of by XLA.
    assert taken.saved == pytest.approx(2 * 512 * 256 * 4 / V6E.hbm_bandwidth)


def test_the_judge_accepts_a_moved_border(moves: dict[str, Move]) -> None:
    task = task_from_text("borders", "maxkernel", "t.py", {"t.py": TASK})
    (split,) = (move for move in moves.values() if "ends" in move.plan.options)
    with open_session("v6e", use_cache=False) as session:
        prepared = session.judge.prepare(task)
        found = session.judge.evaluate(prepared, Candidate(source_of(split)))
    assert found.accepted, found.failure
