"""Fresh draws from input makers that fix their own seed.

jax.random.key and PRNGKey, and numpy's generators, are wrapped once per process. Outside `fresh`
the wrappers change nothing; inside, the seed that the maker asks for is folded into a secret key,
so that two seeds in one maker still give two independent streams.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

_secret: list[Any] = []
_key, _prng_key = jax.random.key, jax.random.PRNGKey
_default_rng = np.random.default_rng
_host_draws: list[object] = []


def key_of(seed: int) -> Any:
    """The typed key of a seed of up to 64 bits; equals jax.random.key(seed) below 2**32."""
    words = np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(jax.numpy.asarray(words), impl="threefry2x32")


@contextmanager
def fresh(secret: Any) -> Generator[None]:
    """Draws inside come from the typed key `secret` instead of the seeds that the code names."""
    _secret.append(secret)
    try:
        if not isinstance(secret, Tracer):
            number = _number(secret, 0)
            np.random.seed(number)
            random.seed(number)
        yield
    finally:
        _secret.pop()


@contextmanager
def watch_host_draws() -> Generator[list[object]]:
    """Collects what was drawn on the host inside: numpy's and Python's generators.

    A traced maker that draws there would give the same values for every seed.
    """
    before = _host_state()
    _host_draws.clear()
    yield _host_draws
    if _host_state() != before:
        _host_draws.append("a global generator")


def _host_state() -> tuple[Any, Any]:
    name, keys, *rest = np.random.get_state(legacy=True)
    return (name, np.asarray(keys).tobytes(), *rest), random.getstate()


def install() -> None:
    """Puts the wrappers in place; call before a task is imported."""
    jax.random.key = _wrapped_key
    jax.random.PRNGKey = _wrapped_prng_key
    np.random.default_rng = _wrapped_default_rng
    np.random.RandomState = _FreshRandomState


def _number(secret: Any, seed: Any) -> int:
    if not isinstance(seed, int):
        seed = 0
    words = np.asarray(jax.random.key_data(jax.random.fold_in(secret, seed & 0xFFFFFFFF)))
    return int(words.ravel()[-1])


def _wrapped_key(seed: Any, *args: Any, **options: Any) -> Any:
    if not _secret:
        return _key(seed, *args, **options)
    return jax.random.fold_in(_secret[-1], seed)


def _wrapped_prng_key(seed: Any, *args: Any, **options: Any) -> Any:
    if not _secret:
        return _prng_key(seed, *args, **options)
    return jax.random.key_data(jax.random.fold_in(_secret[-1], seed))


def _numpy_seed(seed: Any) -> Any:
    _host_draws.append(seed)
    if not _secret or isinstance(_secret[-1], Tracer):
        return seed
    return _number(_secret[-1], seed)


def _wrapped_default_rng(seed: Any = None) -> np.random.Generator:
    return _default_rng(_numpy_seed(seed))


class _FreshRandomState(np.random.RandomState):
    def __init__(self, seed: Any = None) -> None:
        super().__init__(_numpy_seed(seed))
