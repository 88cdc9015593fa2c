"""The error model: what it must refuse, and what it must let pass."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxkernel.types import Tolerance
from maxkernel.worker.numerics import NO_RATIO, compare, unit_roundoff

BF16 = np.dtype(ml_dtypes.bfloat16)
TIGHT = Tolerance(1e-2, 1e-2)
LOOSE = Tolerance(10.0, 1.0)
RNG = np.random.default_rng(0)
ORACLE = RNG.standard_normal((128, 256))
REFERENCE = ORACLE.astype(BF16)


def passes(
    candidate: np.ndarray, tolerance: Tolerance = TIGHT, oracle: np.ndarray = ORACLE
) -> bool:
    reference = oracle.astype(candidate.dtype)
    return compare(candidate, reference, oracle, tolerance).excess <= 1


def test_unit_roundoff() -> None:
    assert unit_roundoff(np.dtype(np.float32)) == 2.0**-24
    assert unit_roundoff(BF16) == 2.0**-8


def test_the_reference_itself_passes_with_no_tolerance_at_all() -> None:
    error = compare(REFERENCE, REFERENCE, ORACLE, Tolerance(0, 0))
    assert error.excess <= 1
    assert error.max_abs == error.reference_max_abs > 0


@pytest.mark.parametrize("tolerance", [TIGHT, LOOSE])
def test_constants_zeros_and_means_fail(tolerance: Tolerance) -> None:
    assert not passes(np.zeros_like(REFERENCE), tolerance)
    assert not passes(np.full_like(REFERENCE, ORACLE.mean()), tolerance)
    assert not passes(np.broadcast_to(ORACLE.mean(0), ORACLE.shape).astype(BF16), tolerance)
    near = 7.0 + 0.003 * ORACLE
    assert not passes(np.full_like(near, 7.0, np.float32), TIGHT, near)


def test_half_the_work_and_one_bad_element_fail() -> None:
    half = REFERENCE.copy()
    half[64:] = 0
    assert not passes(half, LOOSE)
    one = REFERENCE.copy()
    one[3, 5] += 1
    assert not passes(one)


def test_honest_roundings_pass() -> None:
    exact = ORACLE.astype(np.float32)
    assert passes(exact + RNG.standard_normal(ORACLE.shape).astype(np.float32) * 1e-7)
    rounded_operands = exact * (1 + RNG.uniform(-1, 1, ORACLE.shape) * 2**-9).astype(np.float32)
    assert passes(rounded_operands)
    assert not passes(rounded_operands, Tolerance(1e-6, 1e-6))
    again = (REFERENCE.astype(np.float32) * (1 + 2**-9)).astype(BF16)
    assert passes(again)


def test_a_sequential_sum_may_be_a_few_times_worse_than_a_tree() -> None:
    terms = RNG.standard_normal((64, 4096)).astype(np.float32)
    oracle = terms.astype(np.float64).sum(-1)
    tree = terms.sum(-1)
    sequential = np.add.accumulate(terms, -1)[:, -1]
    assert compare(sequential, tree, oracle, Tolerance(1e-3, 1e-3)).excess <= 1


def test_a_noisy_reference_widens_the_elements_allowance() -> None:
    noisy = ORACLE + 0.1 * RNG.standard_normal(ORACLE.shape)
    other = ORACLE + 0.1 * RNG.standard_normal(ORACLE.shape)
    strict = Tolerance(1e-4, 1e-4)
    found = compare(other.astype(np.float32), noisy.astype(np.float32), ORACLE, strict)
    assert found.excess <= 1
    assert compare(other.astype(np.float32), ORACLE.astype(np.float32), ORACLE, strict).excess > 1


def test_nonfinite_values() -> None:
    broken = REFERENCE.copy()
    broken[0, :3] = [np.nan, np.inf, -np.inf]
    assert compare(broken, REFERENCE, ORACLE, TIGHT).nonfinite == 3
    oracle = ORACLE.copy()
    oracle[0, :2] = [np.inf, np.nan]
    reference = oracle.astype(BF16)
    assert compare(reference, reference, oracle, TIGHT).nonfinite == 0
    finite = reference.copy()
    finite[0, 0] = 1
    assert compare(finite, reference, oracle, TIGHT).nonfinite == 1
    flipped = reference.copy()
    flipped[0, 0] = -np.inf
    assert compare(flipped, reference, oracle, TIGHT).nonfinite == 1


def test_an_overflow_of_the_reference_may_be_either() -> None:
    oracle = ORACLE.copy()
    oracle[0, 0] = 1e39
    reference = np.where(oracle > 3.5e38, np.inf, oracle).astype(np.float32)
    assert compare(reference, reference, oracle, TIGHT).nonfinite == 0
    saturated = reference.copy()
    saturated[0, 0] = 3e38
    assert compare(saturated, reference, oracle, TIGHT).nonfinite == 0


def test_a_scalar_is_judged_by_its_own_size() -> None:
    loss = np.array(12.69)
    assert passes(np.array(12.6901, np.float32), TIGHT, loss)
    assert not passes(np.array(12.5, np.float32), TIGHT, loss)


def test_integers() -> None:
    oracle = RNG.integers(0, 100, (64, 8)).astype(np.int32)
    off = oracle.copy()
    off[0, 0] += 1
    assert compare(oracle, oracle, oracle, TIGHT).excess == 0
    assert compare(off, oracle, oracle, TIGHT).excess == NO_RATIO
    assert compare(off, off, oracle, TIGHT).excess == 0
    assert compare(off, oracle, oracle, Tolerance(1, 0, "task")).excess == 0
    near_ties = oracle.copy()
    near_ties[1, :4] += 1
    two = oracle.copy()
    two[2, :2] += 1
    assert 0 < compare(two, near_ties, oracle, TIGHT).excess <= 1
    many = oracle + 1
    assert compare(many, near_ties, oracle, TIGHT).excess > 1
    flags = oracle > 50
    assert compare(flags, flags, flags, TIGHT).excess == 0
    assert compare(~flags, flags, flags, TIGHT).excess > 1


@settings(max_examples=40, deadline=None)
@given(
    scale=st.floats(1e-3, 1e3),
    seed=st.integers(0, 1000),
    name=st.sampled_from(["f4", "bf16", "f2"]),
)
def test_correct_rounding_always_passes(scale: float, seed: int, name: str) -> None:
    """A candidate that is the oracle rounded once passes at any scale, with no tolerance."""
    dtype = BF16 if name == "bf16" else np.dtype(name)
    oracle = np.random.default_rng(seed).standard_normal((16, 32)) * scale
    rounded = oracle.astype(dtype)
    noisier = (oracle * (1 + float(unit_roundoff(dtype)))).astype(dtype)
    assert compare(rounded, noisier, oracle, Tolerance(0, 0)).excess <= 1
