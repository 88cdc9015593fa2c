"""From a typed line to a decision of the session."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from maxkernel.cli.pair import show
from maxkernel.cli.pair.editor import edit
from maxkernel.cli.pair.words import NAMES
from maxkernel.cli.studio import require_studio
from maxkernel.engineers.llm import calls_of, spent_by
from maxkernel.errors import UsageError
from maxkernel.modes.pair import (
    NEW_KERNEL,
    NEW_PLAN,
    Ask,
    PairSession,
    Proposal,
    Stage,
    budget_of,
    compare,
    find_design,
    plan_from_text,
    plan_to_text,
)
from maxkernel.search.reading import read_board


class Quit(Exception):
    """The person leaves."""


class Hands:
    """Carries out what a person types. `shown` is the stage that an empty line approves."""

    def __init__(self, session: PairSession, console: Console) -> None:
        self._session = session
        self._console = console
        self.shown: int | None = None

    def take(self, text: str) -> None:
        """Carries out one line. Raises UsageError for what makes no sense, Quit to leave."""
        text = text.strip()
        waiting = self._waiting()
        if text.startswith("/"):
            self._command(text[1:])
        elif waiting is not None and text.lower() in ("", "y", "yes"):
            self._session.answer(True, proposal=self.shown)
        elif waiting is not None and re.match(r"(?i)no?\b", text):
            why = text.partition(" ")[2]
            self._session.answer(False, why, proposal=self.shown)
        elif waiting is not None and text.lower() in ("e", "edit"):
            self._edit("plan" if waiting.ask.stage == "implement" else "kernel")
        elif text:
            self._session.ask(Ask(stage="answer", text=text))

    def _waiting(self) -> Proposal | None:
        proposal = self._session.state.proposal
        return proposal if proposal is not None and proposal.status == "open" else None

    def _command(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        rest = rest.strip()
        handlers: dict[str, Callable[[str], object]] = {
            "plan": self._plan,
            "implement": lambda r: self._ask("implement", card=_number(r, "plan")),
            "edit": self._edit,
            "tune": lambda r: self._ask("tune", count=_number(r, "number of evaluations") or 0),
            "explain": self._explain,
            "compare": self._compare,
            "reject": self._reject,
            "undo": lambda _: self._session.undo(),
            "redo": lambda _: self._session.redo(),
            "branch": lambda r: self._session.move(_needed(r, "design")),
            "auto": lambda r: self._ask("auto", count=_number(r, "number of rounds") or 1),
            "stop": lambda _: self._session.stop(),
            "show": self._show,
            "graph": self._graph,
            "note": self._session.note,
            "budget": self._budget,
            "approve": self._approve,
            "export": self._export,
            "help": lambda _: show.commands(self._console),
            "quit": self._quit,
        }
        stages: tuple[Stage, ...] = ("judge", "debug", "profile", "accept")
        for stage in stages:
            handlers[stage] = lambda r, s=stage: self._ask(s, design=_number(r, "design"))
        if name not in handlers:
            close = [n for n in NAMES if n.startswith(name)] if name else []
            hint = f"did you mean /{close[0]}?" if close else "/help lists the commands"
            raise UsageError(f"there is no command /{name}", hint)
        handlers[name](rest)

    def _ask(
        self, stage: Stage, *, design: int | None = None, card: int | None = None, count: int = 0
    ) -> None:
        self._session.ask(Ask(stage=stage, design=design, card=card, count=count))

    def _plan(self, rest: str) -> None:
        bench = self._session.state.bench
        if bench.cards:
            self._console.print(show.plans(bench))
        self._session.ask(Ask(stage="plan"))

    def _edit(self, rest: str) -> None:
        what, _, number = rest.partition(" ")
        bench = self._session.state.bench
        if what == "plan":
            card = bench.card(_number(number, "plan") or self._plan_in_view())
            edited = edit(plan_to_text(card.plan if card else NEW_PLAN), ".plan")
            if edited is not None:
                self._session.edit_plan(plan_from_text(edited), card.number if card else None)
                return
        elif what in ("", "kernel"):
            focus = bench.focus
            text = find_design(self._session.run, focus.design).source if focus else NEW_KERNEL
            edited = edit(text, ".py")
            if edited is not None:
                self._session.edit_kernel(edited, focus.design if focus else None)
                return
        else:
            raise UsageError(f"/edit {what}: edit what?", "/edit kernel, or /edit plan 2")
        self._console.print("nothing changed")

    def _plan_in_view(self) -> int | None:
        proposal = self._waiting()
        if proposal is not None and proposal.ask.card is not None:
            return proposal.ask.card
        focus = self._session.state.bench.focus
        return focus.card if focus else None

    def _explain(self, rest: str) -> None:
        first, last = 0, 0
        if rest:
            match = re.fullmatch(r"(\d+)(?:\s*-\s*(\d+))?", rest)
            if match is None:
                raise UsageError(f"/explain {rest}: not a range of lines", "/explain 10-30")
            first, last = int(match[1]), int(match[2] or match[1])
        self._session.ask(Ask(stage="explain", first=first, last=last))

    def _compare(self, rest: str) -> None:
        numbers = [_needed(word, "design") for word in rest.split()]
        if len(numbers) != 2:
            raise UsageError("/compare needs two designs", "/compare 1 2; /graph lists them")
        found = compare(self._session.run, self._session.prepared, numbers[0], numbers[1])
        self._console.print(show.comparison(found))

    def _reject(self, rest: str) -> None:
        match = re.match(
            r"(?:plan\s+(?P<card>\d+)|(?P<design>\d+))?\s*(?P<why>.*)", rest, re.DOTALL
        )
        assert match is not None
        card = int(match["card"]) if match["card"] else None
        design = int(match["design"]) if match["design"] else None
        self._session.reject(match["why"], card=card, design=design)

    def _show(self, rest: str) -> None:
        number = _number(rest, "design")
        if number is None:
            focus = self._session.state.bench.focus
            if focus is None:
                raise UsageError("there is no kernel yet", "/plan, then /implement")
            number = focus.design
        self._console.print(show.source(find_design(self._session.run, number)))

    def _graph(self, rest: str) -> None:
        graph = read_board(self._session.run).graph
        self._console.print(show.graph(graph, self._session.state.bench))

    def _budget(self, rest: str) -> None:
        words = rest.split()
        run = self._session.run
        if words:
            seconds = float(_needed(words[1], "number of seconds")) if len(words) > 1 else None
            self._session.set_budget(_needed(words[0], "number of evaluations"), seconds)
        cost = spent_by(calls_of(run)).cost
        state = self._session.state
        self._console.print(show.budget(state, budget_of(run), len(run.evaluations()), cost))

    def _approve(self, rest: str) -> None:
        if rest not in ("all", "plans", "none"):
            raise UsageError(f"/approve {rest}: expected all, plans or none")
        self._session.set_approve(rest)

    def _export(self, rest: str) -> None:
        require_studio()
        from maxkernel.web import export_run

        run = self._session.run
        path = Path(rest) if rest else Path(f"{self._session.name}.html")
        export_run(run.folder, path)
        self._console.print(f"written: {path}")

    def _quit(self, rest: str) -> None:
        raise Quit


def _number(text: str, what: str) -> int | None:
    if not text:
        return None
    if not text.isdigit():
        raise UsageError(f"{text!r} is not a {what}")
    return int(text)


def _needed(text: str, what: str) -> int:
    number = _number(text, what)
    if number is None:
        raise UsageError(f"which {what}?")
    return number
