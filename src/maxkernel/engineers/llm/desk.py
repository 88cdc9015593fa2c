"""Where roles ask their questions: picks the model, runs the conversation, handles its faults."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from maxkernel.engineers.llm.budget import Meter
from maxkernel.engineers.llm.calls import Record
from maxkernel.engineers.llm.loops import finish
from maxkernel.engineers.llm.models import ModelSpec
from maxkernel.engineers.llm.question import (
    OUTPUT_TOKENS,
    PROMPT_ROOM,
    SHRINKS,
    Question,
    TooLong,
    TooShort,
    Unusable,
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
        them could ever be asked, Stopped after `stop`.
        """
        problems: list[str] = []
        for spec in self._queue(question.role):
            try:
                answer = self._ask(question, spec)
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

    def stop(self) -> None:
        """Cancels every conversation under way; these and later questions raise Stopped."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for loop, task in running:
            loop.call_soon_threadsafe(task.cancel)

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

    def _ask(self, question: Question[T], spec: ModelSpec) -> T:
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
        task = loop.create_task(conversation)
        with self._lock:
            self._running.add((loop, task))
        try:
            return await task
        except asyncio.CancelledError as error:
            if not self._stopped:
                raise
            raise Stopped("the run was stopped") from error
        finally:
            with self._lock:
                self._running.discard((loop, task))
