"""Tools of models, the command line and other faces: text in, bounded text out, written once."""

from __future__ import annotations

import functools
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from maxkernel.engineers.llm.archive import Archive
from maxkernel.engineers.llm.render import (
    clip,
    data,
    describe_evaluation,
    describe_plan,
    describe_program,
)
from maxkernel.errors import MaxkernelError
from maxkernel.judge import Judge, Prepared, read_source
from maxkernel.knowledge import Library
from maxkernel.tuner import tune
from maxkernel.types import Artifact, Candidate, Evaluation, Failure, Tunable

Tool = Callable[..., str]

ANSWER = 6000
"""Characters of a tool's answer; the rest is kept and named by a reference."""
REPEATS = 2
"""How often one question may make the very same call."""
EVALUATIONS = 16
"""Evaluations that tools may cause over a run, beside those of the search."""
TUNINGS = 6
"""Evaluations of one `tune_kernel`."""

Tunables = dict[str, Tunable]


class Toolbox:
    """The tools for one task. Thread-safe; those that need a judge are absent without one.

    `evaluations` bounds what tools may have judged; `judged` hears of each.
    """

    def __init__(
        self,
        library: Library,
        judge: Judge | None = None,
        prepared: Prepared | None = None,
        archive: Archive | None = None,
        evaluations: int = EVALUATIONS,
        judged: Callable[[Evaluation], None] = lambda _: None,
    ) -> None:
        self._library = library
        self._judge = judge
        self._prepared = prepared
        self._archive = archive
        self._left = evaluations
        self._judged = judged
        self._known: dict[str, Evaluation] = {}
        self._texts: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def select(self, *names: str) -> tuple[Tool, ...]:
        """The named tools that can be used here, for one question."""
        counts: Counter[str] = Counter()
        needs_judge = {"compile_kernel", "check_numerics", "profile_kernel", "tune_kernel"}
        usable = [
            name
            for name in names
            if (name not in needs_judge or self._judge is not None)
            and (name != "show_design" or self._archive is not None)
        ]
        return tuple(self._guarded(getattr(self, name), counts) for name in usable)

    def search_docs(self, query: str, k: int = 5) -> str:
        """Searches the Pallas guide and the installed jax: API, errors, strategies.

        Args:
            query: A few words, a name, or an error message.
            k: How many results.
        """
        hits = self._library.search_docs(query, min(max(k, 1), 10))
        if not hits:
            return "Nothing found. Try other words."
        return data("documentation", "\n".join(f"{h.id}: {h.title}: {h.excerpt}" for h in hits))

    def read_doc(self, id: str, offset: int = 0) -> str:
        """Reads one document found by search_docs, or a text that was too long for an answer.

        Args:
            id: As search_docs gave it, or a reference such as text:3.
            offset: Character to start from.
        """
        text = self._texts.get(id) or self._library.read_doc(id)
        if text is None:
            return f"There is no document {id!r}. search_docs finds some."
        return data(id, clip(text[max(offset, 0) :], ANSWER))

    def show_design(self, design: int) -> str:
        """Shows a design of this run: plan, source, and what the judge found.

        Args:
            design: Its number.
        """
        designs = self._archive.designs() if self._archive else []
        found = next((d for d in designs if d.id == design), None)
        if found is None:
            return f"There is no design {design}; there are {[d.id for d in designs]}."
        evaluations = self._archive.evaluations() if self._archive else []
        mine = [e for d, e in evaluations if d == design]
        mine.sort(key=lambda e: e.time.seconds if e.accepted and e.time else float("inf"))
        results = describe_evaluation(mine[0]) if mine else "It was not judged yet."
        return "\n\n".join((describe_plan(found.plan), results, data("kernel", found.source)))

    def compile_kernel(self, source: str, tunables: Tunables | None = None) -> str:
        """Compiles a kernel file for the task's TPU and says what the compiler made of it.

        Args:
            source: The complete Python file.
            tunables: Values that differ from the defaults.
        """
        evaluation = self._evaluate(source, tunables)
        if isinstance(evaluation, str):
            return evaluation
        failure = evaluation.failure
        if failure is not None and failure.stage in ("capture", "rules", "compile"):
            return describe_evaluation(evaluation)
        memory = ", ".join(f"{kind} {size}" for kind, size in evaluation.memory.items())
        return f"It compiles. Bytes: {memory}.\n{describe_evaluation(evaluation)}"

    def check_numerics(self, source: str, tunables: Tunables | None = None) -> str:
        """Runs a kernel file on fresh inputs and compares it with a float64 reference.

        Args:
            source: The complete Python file.
            tunables: Values that differ from the defaults.
        """
        evaluation = self._evaluate(source, tunables)
        if isinstance(evaluation, str):
            return evaluation
        if evaluation.numerics is None:
            return "It did not get as far as the check.\n" + describe_evaluation(evaluation)
        word = "passes" if evaluation.numerics.passed else "fails"
        return f"The numerical check {word}.\n{describe_evaluation(evaluation)}"

    def profile_kernel(self, source: str, tunables: Tunables | None = None) -> str:
        """Simulates a kernel file's compiled schedule: where its time goes.

        Args:
            source: The complete Python file.
            tunables: Values that differ from the defaults.
        """
        evaluation = self._evaluate(source, tunables)
        if isinstance(evaluation, str):
            return evaluation
        if evaluation.program is None:
            return "There is no profile.\n" + describe_evaluation(evaluation)
        profile = describe_program(evaluation.program, source)
        return f"{profile}\n{describe_evaluation(evaluation)}"

    def tune_kernel(self, source: str) -> str:
        """Tries a few assignments of a kernel file's TUNABLES and reports the best.

        Args:
            source: The complete Python file.
        """
        if self._judge is None or self._prepared is None:
            return "There is no judge here."
        space = read_source(source)
        if isinstance(space, Failure):
            return f"{space.message}. {space.advice}"
        info, target = self._prepared.info, self._prepared.target
        with self._lock:
            budget = min(TUNINGS, self._left)
        tuned = tune(source, space, info, target, budget, self._capture, self._evaluate_many)
        if tuned.best is None:
            return f"None of {len(tuned.evaluations)} assignments was accepted."
        return f"Tried {len(tuned.evaluations)}. The best:\n{describe_evaluation(tuned.best)}"

    def _capture(self, candidates: list[Candidate]) -> list[Artifact | Failure]:
        assert self._judge is not None and self._prepared is not None
        return [self._judge.capture(self._prepared, candidate)[0] for candidate in candidates]

    def _evaluate_many(self, candidates: list[Candidate]) -> list[Evaluation]:
        found = [self._evaluate(c.source, c.tunables) for c in candidates]
        return [e for e in found if isinstance(e, Evaluation)]

    def _evaluate(self, source: str, tunables: Tunables | None) -> Evaluation | str:
        """What the judge found, or why it was not asked."""
        if self._judge is None or self._prepared is None:
            return "There is no judge here."
        candidate = Candidate(source, tunables or {})
        with self._lock:
            known = self._known.get(candidate.digest)
            if known is not None:
                return known
            if self._left < 1:
                return "No evaluations are left for tools. Answer without."
            self._left -= 1
        found = self._judge.evaluate(self._prepared, candidate)
        with self._lock:
            self._known[candidate.digest] = found
        self._judged(found)
        return found

    def _guarded(self, tool: Tool, counts: Counter[str]) -> Tool:
        @functools.wraps(tool)
        def guarded(*args: Any, **kwargs: Any) -> str:
            call = repr((tool.__name__, args, sorted(kwargs.items())))
            counts[call] += 1
            if counts[call] > REPEATS:
                return "You made this call before; its answer is the same. Give your answer now."
            try:
                return self._bounded(tool(*args, **kwargs))
            except MaxkernelError as error:
                return f"{error.message} {error.advice}".strip()

        return guarded

    def _bounded(self, text: str) -> str:
        if len(text) <= ANSWER:
            return text
        with self._lock:
            reference = f"text:{next(self._numbers)}"
            self._texts[reference] = text
        return f"{clip(text, ANSWER)}\n(The whole text: read_doc({reference!r}, offset).)"


TOOLS: Sequence[str] = (
    "search_docs",
    "read_doc",
    "compile_kernel",
    "check_numerics",
    "profile_kernel",
    "tune_kernel",
    "show_design",
)
"""Every tool, for faces that offer them all."""
