"""Budgets, plans, and what became of them."""

from __future__ import annotations

from typing import Literal

import msgspec

from maxkernel.types.candidate import Candidate
from maxkernel.types.clock import ProgramTime, Time
from maxkernel.types.evaluation import Failure


class Budget(msgspec.Struct, frozen=True):
    """Hard limits of a run. None means no limit of that kind."""

    candidates: int = 24
    """Evaluations, tunings included."""
    seconds: float | None = None
    patience: int = 3
    """Plans in a row without gain after which the run stops."""
    roofline: float = 0.97
    """Stop when the best kernel reaches this fraction of the roofline bound."""


class Plan(msgspec.Struct, frozen=True):
    """What an engineer intends to build, before any code."""

    family: str
    """`rowwise`, `matmul`, ..."""
    strategy: str
    """Short name of the idea, e.g. `one pass, row resident in VMEM`."""
    reason: str
    """Why it should help, in words."""
    options: dict[str, int | float | bool | str] = {}
    """What the implementer of this family needs to know."""
    expected_seconds: float | None = None
    """The planner's analytic estimate, for ranking only."""


Limit = Literal["hbm", "mxu", "vector", "special", "load_store", "issue", "overhead", "unknown"]
"""What a kernel waits for: memory, matrix unit, vector ALU, transcendental unit, VMEM ports ..."""


class Diagnosis(msgspec.Struct, frozen=True):
    """A profiler's reading of one timed program."""

    limit: Limit
    text: str
    """For people and for the next plan: what limits the program, with figures."""
    figures: dict[str, float] = {}
    """Fractions of the program's time (or counts) that `text` speaks of."""


class Attempt(msgspec.Struct, frozen=True):
    """One plan that was carried out, as the next plan sees it: the best candidate it led to."""

    plan: Plan
    candidate: Candidate | None = None
    """None when no source was written."""
    time: Time | None = None
    """None when every candidate was refused."""
    speedup: float | None = None
    """Baseline time / candidate time."""
    failure: Failure | None = None
    """Why the last candidate was refused, if it was."""
    program: ProgramTime | None = None
    diagnosis: Diagnosis | None = None
