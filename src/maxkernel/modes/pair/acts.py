"""What people and the engine write into the run file: every decision, and every stage's outcome.

Acts are events of kind `pair`, one after another in the order that SQLite gives them. The state
of a session is a fold over them (`fold.py`), so that every client sees the same one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from maxkernel.types import Outcome, Plan

KIND = "pair"
"""The kind of a run file's events that carry acts."""

Stage = Literal[
    "plan", "implement", "edit", "judge", "debug", "tune", "profile", "explain", "answer", "auto",
    "accept",
]  # fmt: skip

Approve = Literal["all", "plans", "none"]
"""What waits for a person's word: every stage, the choice of a plan, or nothing."""


class Focus(msgspec.Struct, frozen=True):
    """The kernel that the session is looking at: a design and one assignment of its tunables."""

    design: int
    tunables: dict[str, int | float | bool | str] = {}
    card: int | None = None
    """The plan it came from."""
    judged: Literal["", "accepted", "refused"] = ""
    tuned: bool = False
    profiled: bool = False
    repairs: int = 0
    seconds: float | None = None
    speedup: float | None = None


class _Act(msgspec.Struct, frozen=True, tag_field="do", kw_only=True):
    by: str = ""
    """Who: `terminal`, `browser`, `engine`."""
    key: str = ""
    """Names this act; a second act with the same key is ignored."""


class Ask(_Act, frozen=True, tag="ask"):
    """A stage is wanted. It is shown, and runs when it is approved."""

    stage: Stage
    design: int | None = None
    card: int | None = None
    text: str = ""
    """A question, or why."""
    source: str = ""
    """The edited kernel."""
    count: int = 0
    """Rounds of `auto`, evaluations of `tune`; 0 where the engine chooses."""
    first: int = 0
    last: int = 0
    """Lines that `explain` is asked about; 0 for the whole kernel."""


class Answer(_Act, frozen=True, tag="answer"):
    """A person's word on a stage that was shown."""

    proposal: int
    approve: bool
    why: str = ""


class EditPlan(_Act, frozen=True, tag="edit_plan"):
    """A person's plan: a changed one, or a new one when `card` is None."""

    plan: Plan
    card: int | None = None


class Reject(_Act, frozen=True, tag="reject"):
    """A plan or a design is refused by the person; planners hear why."""

    card: int | None = None
    design: int | None = None
    why: str = ""


class Note(_Act, frozen=True, tag="note"):
    """A remark for people and planners."""

    text: str
    design: int | None = None


class Move(_Act, frozen=True, tag="move"):
    """The session turns to another design: a branch starts there."""

    focus: Focus


class Undo(_Act, frozen=True, tag="undo"):
    """Takes back decision `of`, which must be the last one standing."""

    of: int


class Redo(_Act, frozen=True, tag="redo"):
    """Restores decision `of`, which must be the last one taken back."""

    of: int


class SetApprove(_Act, frozen=True, tag="set_approve"):
    """Changes what waits for a person's word."""

    approve: Approve


class Stop(_Act, frozen=True, tag="stop"):
    """The running stage is to end as soon as it can."""

    proposal: int


class Began(_Act, frozen=True, tag="began"):
    """The engine runs a stage."""

    proposal: int


class Heard(_Act, frozen=True, tag="heard"):
    """A sign of life from a running stage; `design` where one is concerned."""

    proposal: int
    text: str
    design: int | None = None


class Wrote(_Act, frozen=True, tag="wrote"):
    """More of the answer that a model is writing for a running stage."""

    proposal: int
    role: str
    text: str
    fresh: bool = False
    """What was written before no longer counts: a correction, or another question."""


class Ended(_Act, frozen=True, tag="ended"):
    """What a stage came to. `error` is set when it came to nothing."""

    proposal: int
    text: str = ""
    error: str = ""
    plans: tuple[Plan, ...] = ()
    """New plans, the most promising first."""
    outcomes: dict[int, Outcome] = {}
    """By number of the plan's card."""
    focus: Focus | None = None
    """Where the session stands now; None where it stays."""
    accepted: bool = False
    """The focus is the kernel that the person accepts."""
    seconds: float = 0.0
    """Time that the stage took, for the budget."""


class Bundled(_Act, frozen=True, tag="bundled"):
    """The run's bundle now holds this kernel; None: it was withdrawn."""

    focus: Focus | None


class Told(_Act, frozen=True, tag="told"):
    """The engine has something to say outside a stage."""

    text: str
    problem: bool = False


class Joined(_Act, frozen=True, tag="joined"):
    """The process that drives the run from here on is a pairing session's engine."""


Act = (
    Ask | Answer | EditPlan | Reject | Note | Move | Undo | Redo | SetApprove | Stop | Began
    | Heard | Wrote | Ended | Bundled | Told | Joined
)  # fmt: skip
