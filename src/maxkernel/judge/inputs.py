"""Which inputs candidates are checked on: secret seeds, and further distributions in secret turns.

A seed serves several checks, so that the workers need not draw inputs and ask the reference anew
for every candidate. Nothing of it reaches a candidate: its program exists before the check, and
the verdict tells errors only. Winners are checked again on seeds that nobody used before.
"""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from maxkernel.judge.prepared import Prepared
from maxkernel.types import DISTRIBUTIONS, Distribution, InputCase, Numerics, Trial

USES = 16
"""Checks that one seed serves."""
PER_SEED = 2
"""Further distributions, or cases, that take turns on one seed."""


Wanted = list[Distribution | InputCase]


class Inputs(msgspec.Struct, frozen=True):
    """What one check runs on."""

    seed: int
    distributions: tuple[Distribution, ...] = ()
    cases: tuple[InputCase, ...] = ()


@dataclass
class _Turns:
    seed: int = 0
    left: int = 0
    chosen: list[Distribution | InputCase] = field(default_factory=list[Distribution | InputCase])
    waiting: list[Distribution | InputCase] = field(default_factory=list[Distribution | InputCase])


class Rota:
    """Hands out inputs. Thread-safe; remembers what tells nothing about a task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._random = random.SystemRandom()
        self._turns: dict[str, _Turns] = {}
        self._useless: dict[str, set[str]] = {}

    def next(self, prepared: Prepared) -> Inputs:
        """A seed, and one distribution or case besides the task's own draw."""
        with self._lock:
            turns = self._turns.setdefault(prepared.task.digest, _Turns())
            if not turns.left:
                self._renew(turns, prepared)
            turns.left -= 1
            useful: Wanted = [one for one in turns.chosen if self._useful(prepared, one)]
            return _inputs(turns.seed, self._random.sample(useful, min(1, len(useful))))

    def share(self, prepared: Prepared, number: int, shares: int) -> Inputs:
        """A fresh seed with one of so many shares of all distributions and cases."""
        return _inputs(secret_seed(), everything(prepared)[number::shares])

    def learn(self, prepared: Prepared, trials: Iterable[Trial]) -> None:
        """Takes note of what was skipped, so that its turn goes to another."""
        with self._lock:
            useless = self._useless.setdefault(prepared.task.digest, set())
            useless |= {trial.name for trial in trials if trial.skipped}

    def _renew(self, turns: _Turns, prepared: Prepared) -> None:
        turns.seed, turns.left, turns.chosen = secret_seed(), USES, []
        for _ in range(2):
            while turns.waiting and len(turns.chosen) < PER_SEED:
                one = turns.waiting.pop()
                if one not in turns.chosen and self._useful(prepared, one):
                    turns.chosen.append(one)
            if len(turns.chosen) < PER_SEED:
                turns.waiting = everything(prepared)
                self._random.shuffle(turns.waiting)

    def _useful(self, prepared: Prepared, one: Distribution | InputCase) -> bool:
        return name_of(one) not in self._useless.get(prepared.task.digest, set())


def everything(prepared: Prepared) -> Wanted:
    """Every distribution, and every case of the task."""
    return [*DISTRIBUTIONS, *prepared.cases]


def secret_seed() -> int:
    """A seed that nobody can know beforehand."""
    return secrets.randbits(31)


def repeated(prepared: Prepared, numerics: Numerics) -> Inputs:
    """The inputs of an earlier check."""
    names = {trial.name for trial in numerics.trials}
    wanted: Wanted = [one for one in everything(prepared) if name_of(one) in names]
    return _inputs(numerics.seed, wanted)


def name_of(one: Distribution | InputCase) -> str:
    """The name of a trial on it."""
    return one if isinstance(one, str) else f"case: {one.name}"


def _inputs(seed: int, chosen: Wanted) -> Inputs:
    return Inputs(
        seed,
        tuple(one for one in chosen if isinstance(one, str)),
        tuple(one for one in chosen if not isinstance(one, str)),
    )
