"""Answers from recorded calls instead of a model: offline, byte for byte."""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator

from pydantic_ai.exceptions import ModelNotFoundError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from maxkernel.engineers.llm.calls import Call, canonical
from maxkernel.engineers.llm.metered import REPLAY, said

_NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")


class Recording:
    """Recorded answers, each given once. Thread-safe.

    A question gets the answer recorded for the same role and words. Words can differ from the
    recorded run's, since the judge draws fresh inputs (error figures), tools run again, and
    questions are asked side by side: such a question gets the answer to the role's most similar
    one, and `drift` counts it. `given` are answers that were used before a resume.
    """

    def __init__(self, calls: Iterable[Call], given: Iterable[Call] = ()) -> None:
        self._answered = [call for call in calls if call.answer]
        self._by_digest: defaultdict[str, list[int]] = defaultdict(list)
        self._by_role: defaultdict[str, list[int]] = defaultdict(list)
        for place, call in enumerate(self._answered):
            self._by_digest[call.digest].append(place)
            self._by_role[call.role].append(place)
        self._used: set[int] = set()
        self._lines: dict[int, frozenset[str]] = {}
        self._lock = threading.Lock()
        self.drift = 0
        for call in given:
            self._pass_over(call)

    @property
    def models(self) -> dict[str, str]:
        """The model that answered each role first, as the user wrote it."""
        return {call.role: call.model for call in reversed(self._answered)}

    def answer(self, question: Call) -> Call | None:
        """The recorded call that answers `question`; None when the record ends here."""
        with self._lock:
            place = next(self._free(self._by_digest[question.digest]), None)
            if place is None:
                place = self._nearest(question)
                self.drift += place is not None
            if place is None:
                return None
            self._used.add(place)
            return self._answered[place]

    def _free(self, places: Iterable[int]) -> Iterator[int]:
        return (place for place in places if place not in self._used)

    def _nearest(self, question: Call) -> int | None:
        """The role's recorded question that shares most lines with this one, numbers apart."""
        asked = _lines(question)

        def likeness(place: int) -> float:
            if place not in self._lines:
                self._lines[place] = _lines(self._answered[place])
            known = self._lines[place]
            return len(asked & known) / max(1, len(asked | known))

        return max(self._free(self._by_role[question.role]), key=likeness, default=None)

    def _pass_over(self, call: Call) -> None:
        same = (p for p in self._by_role[call.role] if self._answered[p].answer == call.answer)
        place = next(self._free(same), None)
        if place is not None:
            self._used.add(place)


def _lines(call: Call) -> frozenset[str]:
    """What a question says, line by line, without the numbers."""
    said = "\n".join(f"{part['by']}\n{part['text']}" for part in json.loads(call.request))
    return frozenset(_NUMBER.sub("#", line) for line in said.splitlines())


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
        return REPLAY

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
