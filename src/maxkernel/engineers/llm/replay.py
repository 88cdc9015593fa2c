"""Answers from recorded calls instead of a model: offline, byte for byte."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable

from pydantic_ai.exceptions import ModelNotFoundError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from maxkernel.engineers.llm.calls import Call, canonical
from maxkernel.engineers.llm.metered import said


class Recording:
    """Recorded answers, each given once. Thread-safe.

    A question gets the answer recorded for the same role and words. Words can differ from the
    recorded run's, since the judge draws fresh inputs (error figures) and tools run again: such
    a question gets the role's next answer in recorded order, and `drift` counts it.
    """

    def __init__(self, calls: Iterable[Call]) -> None:
        self._answered = [call for call in calls if call.answer]
        self._by_digest: defaultdict[str, deque[int]] = defaultdict(deque)
        self._by_role: defaultdict[str, deque[int]] = defaultdict(deque)
        for place, call in enumerate(self._answered):
            self._by_digest[call.digest].append(place)
            self._by_role[call.role].append(place)
        self._used: set[int] = set()
        self._lock = threading.Lock()
        self.drift = 0

    @property
    def models(self) -> dict[str, str]:
        """The model that answered each role first, as the user wrote it."""
        return {call.role: call.model for call in reversed(self._answered)}

    def answer(self, question: Call) -> Call | None:
        """The recorded call that answers `question`; None when the record ends here."""
        with self._lock:
            place = self._next(self._by_digest[question.digest])
            if place is None:
                place = self._next(self._by_role[question.role])
                self.drift += place is not None
            if place is None:
                return None
            self._used.add(place)
            return self._answered[place]

    def _next(self, places: deque[int]) -> int | None:
        while places:
            place = places.popleft()
            if place not in self._used:
                return place
        return None


class ReplayModel(Model):
    """Stands in for the model of one role."""

    def __init__(self, recording: Recording, role: str) -> None:
        super().__init__()
        self._recording = recording
        self._role = role

    @property
    def model_name(self) -> str:
        """What stands for a model's name."""
        return "replay"

    @property
    def system(self) -> str:
        """Names this kind of model in messages."""
        return "replay"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The recorded answer, exactly as it came."""
        question = Call(role=self._role, model="", request=canonical(said(messages)))
        found = self._recording.answer(question)
        if found is None:
            raise ModelNotFoundError("replay", f"the record holds no further {self._role} answer")
        response = ModelMessagesTypeAdapter.validate_json(found.answer)[0]
        assert isinstance(response, ModelResponse)
        return response
