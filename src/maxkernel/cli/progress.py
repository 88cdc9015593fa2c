"""Live progress of a run in the terminal: stage, candidates, best so far, time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from maxkernel.engineers.llm import Spent
from maxkernel.judge import Prepared
from maxkernel.report import quote_time, xla_in_words
from maxkernel.types import Budget, Evaluation, Time


class LiveProgress:
    """A `search.Progress` that redraws one status line; plain lines where there is no terminal."""

    def __init__(self, task: str, target: str, budget: Budget, *, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._title = f"{task} on {target}"
        self._budget = budget
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._stages: dict[int | None, str] = {}
        self._seen: set[str] = set()
        self._accepted = 0
        self._best: Time | None = None
        self._baseline: Time | None = None
        self._frontier = ""
        self._spent: Callable[[], Spent] | None = None
        self._live = Live(
            get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True
        )

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def stage(self, name: str, design: int | None) -> None:
        """Shows the stage that a design is in."""
        with self._lock:
            if design is not None:
                self._stages.pop(None, None)
            self._stages[design] = name

    def prepared(self, prepared: Prepared) -> None:
        """Shows what there is to beat."""
        self._baseline = prepared.xla
        self._console.print(
            f"{self._title}: {xla_in_words(prepared)}; "
            f"roofline {quote_time(prepared.bound.time)} ({prepared.bound.limit})"
        )

    def evaluated(self, design: int, evaluation: Evaluation) -> None:
        """Counts a judged candidate and shows a new best."""
        with self._lock:
            self._stages.pop(design, None)
            if evaluation.candidate.digest in self._seen:
                return
            self._seen.add(evaluation.candidate.digest)
            self._accepted += evaluation.accepted
            mine = evaluation.time if evaluation.accepted else None
            better = mine is not None and (self._best is None or mine.seconds < self._best.seconds)
            if better:
                self._best = mine
        if better and mine is not None:
            constants = ", ".join(f"{k}={v}" for k, v in evaluation.candidate.tunables.items())
            self._console.print(
                f"  {self._elapsed()}  design {design} ({constants or 'defaults'}): "
                f"{quote_time(mine)}{self._ratio(mine)}"
            )
        elif evaluation.failure is not None:
            failure = evaluation.failure
            text = f"design {design} refused: {failure.stage}/{failure.kind}: {failure.message}"
            self._console.print(Text(f"  {self._elapsed()}  {text.splitlines()[0][:150]}"))

    def models(self, forecast: str, spent: Callable[[], Spent]) -> None:
        """Shows what models are expected to use, and from now on what they have used."""
        self._console.print(Text(f"  {forecast}"))
        self._spent = spent

    def frontier(self, options: int, running: int, evaluations: int) -> None:
        """Shows how wide a graph search is."""
        with self._lock:
            self._frontier = f"{options} open, {running} under way"

    def _render(self) -> Text:
        with self._lock:
            stages = ", ".join(
                name if design is None else f"design {design}: {name}"
                for design, name in list(self._stages.items())[-3:]
            )
            best = f"best {quote_time(self._best)}{self._ratio(self._best)}" if self._best else ""
            parts = [
                self._elapsed(),
                f"{len(self._seen)}/{self._budget.candidates} candidates",
                f"{self._accepted} accepted",
                self._frontier,
                self._rate(),
                self._meter(),
                best,
                stages,
            ]
        return Text("  " + " | ".join(part for part in parts if part), overflow="ellipsis")

    def _ratio(self, mine: Time) -> str:
        if self._baseline is None or self._baseline.provenance != mine.provenance:
            return ""
        return f", {self._baseline.seconds / mine.seconds:.2f}x XLA"

    def _meter(self) -> str:
        if self._spent is None:
            return ""
        spent = self._spent()
        cost = f"${spent.cost:.2f}" + (" + unpriced" if spent.unpriced_tokens else "")
        return f"{spent.requests} requests, {spent.tokens / 1000:.0f}k tokens, {cost}"

    def _rate(self) -> str:
        minutes = (time.monotonic() - self._started) / 60
        return f"{len(self._seen) / minutes:.1f}/min" if minutes > 0.1 else ""

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._started:5.1f} s"
