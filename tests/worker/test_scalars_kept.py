"""Inputs that steer the clock are drawn once per seed, as long as they fit."""

from collections.abc import Iterator

import pytest

from maxkernel.tasks import task_from_text
from maxkernel.worker import scalars

TASK = """
import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x):
    return x + 1


def inputs(key):
    return jax.random.normal(key, (256, 256), jnp.float32)
"""


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(scalars, "_kept", {})
    yield


def draws(rounds: int) -> list[int]:
    """Identities of what three seeds give, round by round."""
    task = task_from_text("t", "maxkernel", "t.py", {"t.py": TASK}, "t.py")
    held = [scalars.drawn(task, seed, (0,)) for _ in range(rounds) for seed in (1, 2, 3)]
    return [id(found) for found in held]


@pytest.mark.parametrize(("kib", "kept"), [(3 * 256, True), (3 * 256 - 1, False)])
def test_three_seeds_are_kept_where_they_fit(
    monkeypatch: pytest.MonkeyPatch, kib: int, kept: bool
) -> None:
    monkeypatch.setattr(scalars, "KEPT_LIMIT", kib << 10)
    found = draws(2)
    assert (found[:3] == found[3:]) is kept
