"""What the roles share: the desk, the task at hand, what the run has found, and what is known."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.llm.archive import Archive
from maxkernel.engineers.llm.desk import Desk
from maxkernel.engineers.llm.fixes import Fixes
from maxkernel.engineers.llm.render import prompt_file
from maxkernel.engineers.llm.tools import Tool, Toolbox
from maxkernel.engineers.roles import NoAnswer
from maxkernel.engineers.team import Team
from maxkernel.judge import Prepared
from maxkernel.knowledge import Library
from maxkernel.targets import Target
from maxkernel.types import Design, Evaluation, Outcome, Plan, TaskInfo

HINTS = 3
"""Passages of the guide that are put into a question unasked."""
HINT_LENGTH = 1200
"""Characters of one such passage."""


@dataclass(frozen=True)
class Office:
    """Shared by all roles of one team."""

    desk: Desk
    library: Library
    sheet: str
    """The API sheet of the workers' jax."""
    floor: Team
    """The built-in team: starting points, and neutral answers."""
    fixes: Fixes
    toolbox: Toolbox
    archive: Archive
    prepared: Prepared | None = None

    def instructions(self, role: str, *more: str) -> str:
        """A role's prompt, the common rules, and the named extras (`contract`, `sheet`)."""
        parts = [prompt_file(role), prompt_file("common")]
        if "contract" in more:
            parts.append(prompt_file("contract"))
        if "sheet" in more:
            parts.append(f"## API sheet\n\n{self.sheet}")
        return "\n\n".join(parts)

    def tools(self, *names: str) -> tuple[Tool, ...]:
        """The named tools, as far as this team can use them."""
        return self.toolbox.select(*names)

    def hints(self, query: str, prefix: str = "guide/") -> str:
        """The guide's passages that fit a query best, as Markdown."""
        hits = [hit for hit in self.library.search_docs(query, 12) if hit.id.startswith(prefix)]
        texts = [self.library.read_doc(hit.id) or "" for hit in hits[:HINTS]]
        return "\n\n".join(text[:HINT_LENGTH] for text in texts)

    def floor_plans(
        self, info: TaskInfo, target: Target, history: tuple[Outcome, ...]
    ) -> list[Plan]:
        """The built-in engineer's plans; none when it knows no family for the task."""
        try:
            return self.floor.planner.plan(info, target, history)
        except NoAnswer:
            return []

    def design(self, id: int | None) -> Design | None:
        """A design of this run by its number."""
        return next((d for d in self.archive.designs() if d.id == id), None)

    def best_of(self, design: int) -> Evaluation | None:
        """The fastest accepted evaluation of a design."""
        accepted = [e for d, e in self.archive.evaluations() if d == design and e.accepted]
        return min(accepted, key=lambda e: e.time.seconds if e.time else 0.0, default=None)

    def best(self) -> tuple[Design, Evaluation] | None:
        """The fastest accepted design of this run so far."""
        accepted = [(d, e) for d, e in self.archive.evaluations() if e.accepted and e.time]
        if not accepted:
            return None
        id, evaluation = min(accepted, key=lambda pair: pair[1].time.seconds if pair[1].time else 0)
        design = self.design(id)
        return None if design is None else (design, evaluation)
