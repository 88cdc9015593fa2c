"""The prompt: prints what happens, takes what the person types."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import msgspec
from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from maxkernel.api import EngineHost
from maxkernel.cli.pair import show
from maxkernel.cli.pair.act import Hands, Quit
from maxkernel.cli.pair.complete import PairCompleter
from maxkernel.cli.pair.draft import Draft, tail
from maxkernel.errors import MaxkernelError
from maxkernel.modes.pair import TITLES, Line, PairSession, State, budget_of

_WAIT_SECONDS = 0.2


class Face:
    """One terminal on one session."""

    def __init__(self, session: PairSession, host: EngineHost, history: Path) -> None:
        self._session = session
        self._host = host
        self._console = Console(highlight=False, force_terminal=True)
        self._hands = Hands(session, self._console)
        self._draft = Draft()
        self._told = 0
        self._introduced = False
        self._complained = False
        self._counted = -1
        self._counts: list[str] = []
        self._closing = threading.Event()
        history.parent.mkdir(parents=True, exist_ok=True)
        self._prompt: PromptSession[str] = PromptSession(
            message=self._message,
            bottom_toolbar=self._toolbar,
            completer=PairCompleter(session),
            complete_while_typing=True,
            auto_suggest=AutoSuggestFromHistory(),
            history=FileHistory(str(history)),
            refresh_interval=0.5,
        )

    def run(self) -> None:
        """Prompts until the person leaves (/quit, or Ctrl-D)."""
        with patch_stdout(raw=True):
            watcher = threading.Thread(target=self._watch, daemon=True)
            watcher.start()
            try:
                while self._once():
                    pass
            finally:
                self._closing.set()
                watcher.join()

    def _once(self) -> bool:
        try:
            text = self._prompt.prompt()
            self._hands.take(text)
        except MaxkernelError as error:
            self._console.print(show.problem(error.message, error.advice))
        except KeyboardInterrupt:
            if self._session.state.running:
                self._session.stop()
        except (EOFError, Quit):
            return False
        return True

    def _watch(self) -> None:
        """Prints the conversation as it grows, whoever adds to it."""
        revision = -1
        while not self._closing.is_set():
            state = self._session.wait(revision, _WAIT_SECONDS)
            if state.revision > revision or not self._introduced:
                revision = state.revision
                self._tell(state)
            if self._host.problem and not self._complained:
                self._complained = True
                self._console.print(show.problem(self._host.problem, ""))

    def _tell(self, state: State) -> None:
        prepared = self._session.prepared
        if prepared is not None and not self._introduced:
            self._introduced = True
            self._console.print(show.task(prepared, self._session.name))
        if not self._introduced:
            return
        for item in state.lines:
            if item.id > self._told:
                self._told = item.id
                self._print(item)
        proposal = state.proposal
        lines = self._draft.lines(proposal)
        if lines:
            self._console.print(show.piece(lines))
        if proposal is None or proposal.status != "open" or proposal.id == self._hands.shown:
            return
        self._hands.shown = proposal.id
        if proposal.ask.stage == "implement":
            self._console.print(show.plans(state.bench))
        self._console.print(show.proposal(proposal, state.bench))

    def _print(self, item: Line) -> None:
        """Prints a line, without what was printed while it was written."""
        if item.kind == "result":
            rest = self._draft.rest(item.text)
            if not rest:
                return
            item = msgspec.structs.replace(item, text=rest)
        self._console.print(show.line(item))

    def _message(self) -> FormattedText:
        state = self._session.state
        proposal = state.proposal
        if not self._introduced:
            return FormattedText([("", "preparing the task> ")])
        if proposal is not None and proposal.status == "open":
            return FormattedText([("ansiyellow", f"{TITLES[proposal.ask.stage]}? [Y/n/e] ")])
        focus = state.bench.focus
        return FormattedText([("bold", f"design {focus.design}> " if focus else "maxkernel> ")])

    def _toolbar(self) -> str:
        state = self._session.state
        parts = [*self._spent(state), f"asks: {state.approve}"]
        proposal = state.proposal
        if self._session.prepared is None:
            parts.insert(0, self._host.problem or "preparing the task")
        elif proposal is not None and proposal.status != "open":
            seconds = f" {time.time() - proposal.since:.0f} s" if proposal.since else ""
            sign = tail(proposal) or proposal.sign
            sign = f", {sign}" if sign else ""
            word = "stopping" if state.stopping else TITLES[proposal.ask.stage]
            parts.insert(0, f"{word}{seconds}{sign}")
        if not self._host.driving and self._session.prepared is not None:
            parts.append("another process drives this run")
        return " | ".join(parts)

    def _spent(self, state: State) -> list[str]:
        """Best time and evaluations; read anew only when something happened."""
        if state.settled != self._counted:
            self._counted = state.settled
            run = self._session.run
            found = [evaluation for _, evaluation in run.evaluations()]
            times = [e.time.seconds for e in found if e.accepted and e.time]
            best = [f"best {min(times) * 1e6:.4g} us"] if times else []
            self._counts = [*best, f"{len(found)}/{budget_of(run).candidates} evaluations"]
        return self._counts
