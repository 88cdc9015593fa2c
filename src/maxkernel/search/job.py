"""What a search decides to do, and what comes back: plain data, stored as steps of the run.

The graph of a search is the fold of its jobs and their results; see `apply`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from maxkernel.types import Design, Evaluation, Move, Plan, Tunable

JobKind = Literal["idle", "plan", "implement", "repair", "rank", "tune", "moves"]
"""`idle` waits for what is under way; `rank` looks at a design's constants without judging any."""

COSTS = {"implement": 1, "repair": 1, "tune": 1}
"""Evaluations that a job may use, by kind."""

CHOICE = "graph/choice/"
RESULT = "graph/result/"
"""Keys of the steps that keep jobs and results, by number."""


class Steer(msgspec.Struct, frozen=True):
    """A person's word on a search."""

    action: Literal["pin", "cut", "hint"]
    node: int = 0
    """0: the whole task (hints only)."""
    text: str = ""


class Job(msgspec.Struct, frozen=True):
    """One decision. `number` counts decisions; later ones see the results of earlier ones."""

    number: int
    kind: JobKind
    node: int = 0
    """What it works on; 0 for a plan of the whole task. A repair works on a node of its own."""
    tunables: dict[str, Tunable] = {}
    """For `tune`: the assignment to judge."""
    partners: tuple[int, ...] = ()
    """For `moves`: designs to merge with."""
    limit: int = 0
    """For `rank`: assignments to look at."""
    broken: int = 0
    """For `repair`: the design to mend."""
    steers: tuple[Steer, ...] = ()
    """Words that were heard just before this decision."""
    designs: tuple[int, ...] = ()
    """Designs that another mode had made by then."""
    judged: tuple[tuple[int, str], ...] = ()
    """(design, candidate's digest) of evaluations that another mode had made by then."""
    intents: tuple[int, ...] = ()
    """Intents that this run was given of another one."""

    @property
    def waits(self) -> bool:
        """Nothing is done and nothing taken in; `width` of these in a row end a search."""
        return self.kind == "idle" and not (
            self.steers or self.designs or self.judged or self.intents
        )

    @property
    def cost(self) -> int:
        """Evaluations that it may use."""
        return COSTS.get(self.kind, 0)


class Ranked(msgspec.Struct, frozen=True):
    """An assignment that was looked at but not judged."""

    tunables: dict[str, Tunable]
    estimate: float
    """Seconds by the analytic model; for ranking only."""


class Merge(msgspec.Struct, frozen=True):
    """A move with a second parent."""

    other: int
    move: Move


class JobResult(msgspec.Struct, frozen=True):
    """What a job found."""

    design: Design | None = None
    """The design that was written; in the designs' table once the result is applied."""
    evaluation: Evaluation | None = None
    """A new finding; in the evaluations' table once the result is applied."""
    candidate: str = ""
    """Digest of the candidate that was looked at."""
    same_as: str = ""
    """The program is one that was judged before: its digest."""
    misfit: bool = False
    """Constants that cannot be captured (`note` says why), or do not fit in VMEM by the analytic
    model, so that nothing was compiled."""
    artifact: str = ""
    """Digest of such a program: another job may have had it judged in the meantime."""
    limit: str = ""
    plans: tuple[Plan, ...] = ()
    moves: tuple[Move, ...] = ()
    merges: tuple[Merge, ...] = ()
    space: dict[str, tuple[Tunable, ...]] = {}
    ranked: tuple[Ranked, ...] = ()
    captured: int = 0
    """Assignments that were traced to rank them, from the default outwards."""
    note: str = ""
    """Why nothing came of it."""
    spent: bool = False
    """The engineers' own budget is spent."""
    written: bool = False
    """A design was written; set when the result is applied."""
