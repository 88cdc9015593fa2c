"""Further inputs keep what the task's own draws mean, and what they can tell is known."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from worker_samples import task_of

from maxkernel.types import DISTRIBUTIONS, InputCase, Tolerance
from maxkernel.worker.cases import make_case
from maxkernel.worker.distributions import Draws, make
from maxkernel.worker.graph import graph_of
from maxkernel.worker.numerics import truth_of
from maxkernel.worker.reference import prepare
from maxkernel.worker.samples import Sample, Skipped, draw, further
from maxkernel.worker.uses import Use, uses

RNG = np.random.default_rng(0)
X = RNG.standard_normal((32, 64)).astype(ml_dtypes.bfloat16)


def use_of(function: Any, *arrays: Any) -> list[Use]:
    return uses(graph_of(jax.make_jaxpr(function)(*arrays)))


def test_what_inputs_are_used_for() -> None:
    table, index, length = np.ones((64, 8), np.float32), np.arange(8), np.arange(8)

    def reference(x: Any, table: Any, index: Any, length: Any, decay: Any) -> Any:
        rows = table[index]
        mask = jnp.arange(8)[None] < length[:, None]
        safe = jax.nn.softmax(x.astype(jnp.float32))
        return rows, mask, safe * jax.lax.rsqrt(jnp.mean(x * x)), jnp.exp(jnp.cumsum(decay))

    x, _, at, long, decay = use_of(reference, X, table, index, length, table)
    assert not x.ranged, "a softmax and a root of squares are defined everywhere"
    assert decay.ranged
    assert at.indexes and not at.bounds and not at.writes
    assert long.bounds and not long.indexes
    (_, spots) = use_of(lambda x, i: x.at[i].set(0.0), table, index)
    assert spots.writes
    _, inside = use_of(
        lambda x, d: jax.lax.scan(lambda c, r: (c * d + r, c), jnp.zeros(8), x)[0],
        table,
        np.ones(8, np.float32),
    )
    assert inside.ranged, "what happens in a loop is not followed"


def made(name: Any, arrays: list[np.ndarray], *used: Use, others: Any = ()) -> list[np.ndarray]:
    strength = 8 if name in ("large", "small") else 0
    found = make(name, Draws(arrays, others, used), strength, np.random.default_rng(1))
    assert all(new.dtype == old.dtype for new, old in zip(found.arrays, arrays, strict=True))
    return found.arrays


def test_floats_change_and_masks_stay() -> None:
    mask = np.where(RNG.random((32, 64)) < 0.5, -np.inf, 0).astype(np.float32)
    table = np.linspace(0, 1, 64, dtype=np.float32)
    padded = X.copy()
    padded[20:] = 0
    for name in DISTRIBUTIONS:
        one, two, three = made(name, [mask, table, padded], Use(), Use(), Use())
        assert one is mask and two is table
        assert name == "equal rows" or not three[20:].any()
        assert name == "edges" or (three[:20] != padded[:20]).any()
    (large,) = made("large", [X], Use())
    np.testing.assert_array_equal(large.astype(np.float64), X.astype(np.float64) * 256)
    (zeros,) = made("signed zeros", [X], Use())
    signs = np.signbit(zeros.astype(np.float32)[zeros == 0])
    assert signs.any() and not signs.all()
    (rows,) = made("equal rows", [X], Use())
    assert (rows == rows[:1]).all()


def test_a_float_with_a_domain_keeps_its_range() -> None:
    positive = RNG.uniform(0.5, 0.9, (16, 16)).astype(np.float32)
    (kept,) = made("uniform", [positive], Use(ranged=True))
    assert kept.min() >= 0.5 and kept.max() <= 0.9
    (free,) = made("uniform", [positive], Use())
    assert free.min() < 0
    assert made("large", [positive], Use(ranged=True))[0] is positive


def edges(*draws: np.ndarray, use: Use) -> np.ndarray:
    first, *others = ([d] for d in draws)
    return made("edges", first, use, others=others)[0]


def test_integers_go_to_the_edges_and_keep_their_structure() -> None:
    def lengths() -> np.ndarray:
        return (16 * RNG.integers(1, 9, 24)).astype(np.int32)

    found = edges(lengths(), lengths(), lengths(), use=Use(bounds=True))
    assert found.min() >= 16 and found.max() <= 128
    assert (found % 16 != 0).any()
    offsets = [np.concatenate([[0], np.cumsum(RNG.permutation(16))]) for _ in range(3)]
    found = edges(*(o.astype(np.int32) for o in offsets), use=Use(bounds=True))
    assert (np.diff(found) >= 0).all() and found[0] == 0 and found[-1] == offsets[0][-1]
    assert (found != offsets[0]).any()
    groups = [RNG.multinomial(512, np.ones(8) / 8).astype(np.int32) for _ in range(3)]
    found = edges(*groups, use=Use(bounds=True))
    assert found.sum() == 512 and (found != groups[0]).any()
    pages = [RNG.permutation(64).reshape(8, 8).astype(np.int32) for _ in range(3)]
    found = edges(*pages, use=Use(indexes=True))
    assert sorted(found.reshape(-1)) == list(range(64)) and (found != pages[0]).any()


def test_a_length_that_was_never_less_stays_so() -> None:
    def pair() -> list[np.ndarray]:
        new = RNG.integers(1, 17, 12)
        return [(new + RNG.integers(0, 100, 12)).astype(np.int32), new.astype(np.int32)]

    draws = [pair() for _ in range(3)]
    use = Use(bounds=True)
    total, new = made("edges", draws[0], use, use, others=draws[1:])
    assert (total >= new).all() and (total != draws[0][0]).any()


def test_rounded_inputs_tell_what_a_comparison_is_worth() -> None:
    oracle = RNG.standard_normal((64, 64))
    reference = oracle.astype(np.float32)
    exact = Tolerance(0, 0)
    assert not truth_of(reference, oracle, exact).meaningless()
    noisy = truth_of(reference, oracle, exact, oracle + 0.5)
    assert "as large as the result" in noisy.meaningless()
    wide = truth_of(reference, oracle, exact, oracle + 1e-3)
    assert wide.own_max == pytest.approx(1e-3, rel=1e-3) and not wide.meaningless()
    broken = reference.copy()
    broken[0, 0] = np.inf
    assert "not finite" in truth_of(broken, oracle, exact).meaningless()


GROWING = task_of("""
    import jax, jax.numpy as jnp
    def reference(x): return jnp.exp(x).sum(-1)
    def inputs(key): return jax.random.normal(key, (16, 64))
""")


def test_what_the_reference_cannot_do_is_skipped_in_words() -> None:
    prepared = prepare(GROWING)
    found = {name: further(prepared, 3, name) for name in DISTRIBUTIONS}
    skipped = {name for name, sample in found.items() if isinstance(sample, Skipped)}
    assert skipped == {"large", "small", "signed zeros", "edges"}
    uniform = found["uniform"]
    assert isinstance(uniform, Sample) and uniform.noise is not None
    assert further(prepared, 3, "uniform") is uniform, "kept for the next candidate"
    huge = InputCase("huge", "overflow", {0: "constant"}, 1e4)
    case = further(prepared, 3, huge)
    assert isinstance(case, Skipped) and "not finite" in case.why
    fine = further(prepared, 3, InputCase("ones", "ties", {0: "ones"}))
    assert isinstance(fine, Sample) and (fine.originals[0] == 1).all()
    assert not (draw(prepared, 3).originals[0] == 1).any()


@pytest.mark.parametrize("fill", ["random_int", "lowest", "highest", "large", "ones", "reversed"])
def test_cases_keep_integers_in_the_range_of_the_draws(fill: Any) -> None:
    first = RNG.integers(3, 50, (4, 8)).astype(np.int32)
    draws = Draws([first], [[first[::-1]]], [Use(indexes=True)])
    case = InputCase("c", "r", {0: fill, 7: "zeros"}, 1e6)
    (found,) = make_case(case, draws, np.random.default_rng(0)).arrays
    assert found.dtype == np.int32 and found.shape == first.shape
    assert first.min() <= found.min() and found.max() <= first.max()
