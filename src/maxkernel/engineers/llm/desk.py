"""Where roles ask their questions: picks the model, runs the conversation, handles its faults."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from maxkernel.engineers.llm.budget import Meter
from maxkernel.engineers.llm.calls import Record
from maxkernel.engineers.llm.loops import finish
from maxkernel.engineers.llm.models import ModelSpec
from maxkernel.engineers.llm.question import (
    OUTPUT_TOKENS,
    PROMPT_ROOM,
    SHRINKS,
    Hear,
    Question,
    TooLong,
    TooShort,
    Unusable,
    Words,
)
from maxkernel.engineers.llm.robust import DEFAULT_PATIENCE, Patience, Troubles
from maxkernel.engineers.roles import BudgetSpent, NoAnswer, Stopped
from maxkernel.errors import EnvironmentFault

if TYPE_CHECKING:
    from maxkernel.engineers.llm.replay import Recording

T = TypeVar("T")


class Desk:
    """Answers questions with models. Thread-safe: any number of threads may ask at once."""

    def __init__(
        self,
        models: Mapping[str, Sequence[ModelSpec]],
        meter: Meter,
        record: Record,
        recording: Recording | None = None,
        patience: Patience = DEFAULT_PATIENCE,
    ) -> None:
        self.meter = meter
        self.troubles = Troubles()
        self._models = models
        self._record = record
        self._recording = recording
        self._patience = patience
        self._turns: dict[str, int] = {}
        self._out: dict[ModelSpec, str] = {}
        self._running: set[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = set()
        self._cancelled: set[asyncio.Task[Any]] = set()
        self._hear: Hear | None = None
        self._numbers = itertools.count(1)
        self._stopped = False
        self._answered = False
        self._lock = threading.Lock()

    @property
    def drift(self) -> int:
        """Questions of a replay that read otherwise than any recorded one."""
        return self._recording.drift if self._recording is not None else 0

    def ask(self, question: Question[T]) -> T:
        """The answer of the role's next model, or of another one when that one is out.

        Raises BudgetSpent when the budget forbids another request or every model of the role has
        gone out for good, NoAnswer when none gives a usable answer, EnvironmentFault when none of
        them could ever be asked, Stopped after `stop` and when `cancel` ends it.
        """
        hear, done = self._ear(question.role)
        try:
            return self._first_answer(question, hear)
        finally:
            done()

    def _first_answer(self, question: Question[T], hear: Callable[[str], None] | None) -> T:
        problems: list[str] = []
        for spec in self._queue(question.role):
            try:
                answer = self._ask(question, spec, hear)
                self._answered = True
                return answer
            except Unusable as fault:
                self.troubles.note(fault.kind)
                problems.append(f"{spec}: {fault}")
                if fault.lasting:
                    self._out[spec] = str(fault)
            except EnvironmentFault as fault:
                problems.append(fault.message)
                self._out[spec] = fault.message
        if all(spec in self._out for spec in self._models[question.role]):
            text = f"no model is left for the {question.role}: {'; '.join(problems)}"
            advice = "check keys, names and credit with `maxkernel doctor`"
            raise BudgetSpent(text, advice) if self._answered else EnvironmentFault(text, advice)
        raise NoAnswer(f"the {question.role} has no answer: {'; '.join(problems)}")

    def listen(self, hear: Hear) -> None:
        """From now on `hear` gets what models write while they write it."""
        self._hear = hear

    def cancel(self) -> None:
        """Ends every conversation under way: these questions raise Stopped, later ones do not."""
        with self._lock:
            for loop, task in self._running:
                self._cancelled.add(task)
                loop.call_soon_threadsafe(task.cancel)

    def stop(self) -> None:
        """As `cancel`, and every later question raises Stopped too."""
        with self._lock:
            self._stopped = True
        self.cancel()

    def _ear(self, role: str) -> tuple[Callable[[str], None] | None, Callable[[], None]]:
        """What hears one question's answer, and what says that it is over."""
        hear, number = self._hear, next(self._numbers)
        if hear is None:
            return None, lambda: None
        return (
            lambda text: hear(Words(number, role, text)),
            lambda: hear(Words(number, role, "", done=True)),
        )

    def _queue(self, role: str) -> list[ModelSpec]:
        """The role's models that are not out, the one whose turn it is first."""
        if role not in self._models:
            raise NoAnswer(f"no model is set for the {role}")
        with self._lock:
            if self._stopped:
                raise Stopped("the run was stopped")
            specs = self._models[role]
            turn = self._turns.get(role, 0)
            self._turns[role] = turn + 1
            order = [specs[(turn + place) % len(specs)] for place in range(len(specs))]
            return [spec for spec in order if spec not in self._out] or order

    def _ask(self, question: Question[T], spec: ModelSpec, hear: Callable[[str], None] | None) -> T:
        from maxkernel.engineers.llm.talk import converse

        room, output = PROMPT_ROOM, OUTPUT_TOKENS
        for _ in range(SHRINKS + 1):
            try:
                return finish(
                    self._tracked(
                        converse(
                            question,
                            spec,
                            room,
                            output,
                            meter=self.meter,
                            record=self._record,
                            troubles=self.troubles,
                            recording=self._recording,
                            patience=self._patience,
                            hear=hear,
                        )
                    )
                )
            except TooLong:
                self.troubles.note("context")
                room //= 2
            except TooShort:
                self.troubles.note("truncated")
                if output > OUTPUT_TOKENS:
                    break
                output *= 2
        raise Unusable("context", "question or answer does not fit, however short")

    async def _tracked(self, conversation: Coroutine[Any, Any, T]) -> T:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._stopped:
                conversation.close()
                raise Stopped("the run was stopped")
            task = loop.create_task(conversation)
            self._running.add((loop, task))
        try:
            return await task
        except asyncio.CancelledError as error:
            if task not in self._cancelled:
                raise
            raise Stopped("the run was stopped") from error
        finally:
            with self._lock:
                self._running.discard((loop, task))
                self._cancelled.discard(task)
