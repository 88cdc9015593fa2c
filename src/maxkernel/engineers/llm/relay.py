"""`relay:FOLDER`: every request becomes a file, the answer is the file put beside it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from pathlib import Path
from uuid import uuid4

from pydantic_ai.exceptions import ModelServerError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from maxkernel.engineers.llm.cli import as_prompt

POLL_SECONDS = 0.2
"""Between two looks at the folder; an answer counts when two looks find the same text."""


class RelayModel(Model):
    """Writes `0001-planner.md` and waits for `0001-planner.answer.md`."""

    def __init__(self, folder: str, role: str) -> None:
        super().__init__()
        self._folder = Path(folder).expanduser()
        self._role = role

    @property
    def model_name(self) -> str:
        """The folder."""
        return str(self._folder)

    @property
    def system(self) -> str:
        """Names this kind of model in messages."""
        return "relay"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The answer file's text, once somebody has put it there."""
        try:
            question = self._write(as_prompt(messages))
        except OSError as error:
            raise ModelServerError(
                str(self._folder), f"cannot write into {self._folder}: {error.strerror}"
            ) from error
        answer = question.with_suffix(".answer.md")
        return ModelResponse(parts=[TextPart(await _read(answer))], model_name=str(self._folder))

    def _write(self, text: str) -> Path:
        """The request under the next free number; appears whole, never half written."""
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f".draft-{uuid4().hex}"  # every asker of a process has its own
        draft.write_text(text)
        try:
            for number in itertools.count(len(list(self._folder.glob("*.md"))) // 2 + 1):
                if list(self._folder.glob(f"{number:04}-*")):
                    continue
                path = self._folder / f"{number:04}-{self._role}.md"
                with contextlib.suppress(FileExistsError):
                    os.link(draft, path)
                    return path
        finally:
            draft.unlink()
        raise AssertionError("there is always a free number")


async def _read(path: Path) -> str:
    last: str | None = None
    while True:
        text = path.read_text(errors="replace") if path.is_file() else None
        if text is not None and text.strip() and text == last:
            return text
        last = text
        await asyncio.sleep(POLL_SECONDS)
