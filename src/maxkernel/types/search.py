"""Budgets and plans."""

from __future__ import annotations

from typing import Literal

import msgspec


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


class Design(msgspec.Struct, frozen=True):
    """A node of the design graph: one plan made into one source."""

    id: int
    plan: Plan
    source: str
    move: str
    """What was done to get here: `plan`, `repair`, ..."""
    parents: tuple[int, ...] = ()


class Intent(msgspec.Struct, frozen=True):
    """A design that is meant to be written: a plan, and the move that leads to it.

    `id` is also the id of the design that is written first for it; repairs get ids of their own.
    """

    id: int
    plan: Plan
    move: str
    """`plan`, or the kind of move and what it does: `refine: ...`, `retune: ...`, `merge: ...`."""
    parents: tuple[int, ...] = ()
    """Designs that the move starts from: none, one, or two for a merge."""
    gain: float = 0.0
    """Expected ln(time of the first parent / time of this design); may be negative."""
    source: str = ""
    """The kernel itself where the move is a rewriting of the parent's source; else empty."""
    tunables: dict[str, int | float | bool | str] = {}
    """Constants to judge it with first; those that it does not declare are dropped."""


class Move(msgspec.Struct, frozen=True):
    """A step from one design to another that an engineer proposes."""

    name: str
    """What is done, the kind of move first: `refine: unroll the row loop 4 times`."""
    plan: Plan
    gain: float = 0.0
    """Expected ln(time before / time after), for ranking only."""
    source: str = ""
    """The new kernel where the move rewrites the old one; empty: the implementer writes it."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of one plan; planners read these to propose the next.

    `seconds` is the best accepted time of the plan's designs in the run's provenance, None when
    every one was refused (`failure` then says why, as `stage/kind: message`).
    """

    plan: Plan
    design: int | None
    seconds: float | None
    speedup: float | None
    tunables: dict[str, int | float | bool | str] = {}
    failure: str = ""
    bottleneck: str = ""
    """The profiler's word on the best version."""


Limit = Literal["hbm", "mxu", "vector", "special", "load_store", "issue", "overhead", "unknown"]
"""What a kernel waits for: memory, matrix unit, vector ALU, transcendental unit, VMEM ports ..."""


class Diagnosis(msgspec.Struct, frozen=True):
    """A profiler's reading of one timed program."""

    limit: Limit
    text: str
    """For people and for the next plan: what limits the program, with figures."""
    figures: dict[str, float] = {}
    """Fractions of the program's time (or counts) that `text` speaks of."""


Fill = Literal[
    "normal", "uniform", "zeros", "ones", "constant", "large", "tiny", "alternating", "ramp",
    "one_hot", "equal_rows", "sorted", "reversed", "random_int", "lowest", "highest"
]  # fmt: skip
"""How an input's values are made: `constant`, `large` and `tiny` read `scale`; integers take
`random_int` (whole range of the original), `lowest`, `highest`, `sorted`, `reversed`."""


class InputCase(msgspec.Struct, frozen=True):
    """One hard set of inputs at check size, as data. Inputs without a fill stay the task's own."""

    name: str
    reason: str
    """What could go wrong on it."""
    fills: dict[int, Fill]
    """By position of the input among the arrays of the call."""
    scale: float = 1.0
