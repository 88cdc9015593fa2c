"""`cli:COMMAND`: any program that reads a prompt on standard input and prints an answer."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal

from pydantic_ai.exceptions import ModelServerError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from maxkernel.engineers.llm.metered import said

_STDERR_SHOWN = 500


class CliModel(Model):
    """Runs the command once per request; it sees the whole conversation each time."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self._command = command

    @property
    def model_name(self) -> str:
        """The command."""
        return self._command

    @property
    def system(self) -> str:
        """Names this kind of model in messages."""
        return "cli"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """What the command printed. The command and its children die when the wait ends."""
        try:
            process = await asyncio.create_subprocess_exec(
                *shlex.split(self._command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ModelServerError(
                self._command, f"cannot run {self._command!r}: {error}"
            ) from error
        try:
            output, errors = await process.communicate(as_prompt(messages).encode())
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            shown = errors.decode(errors="replace")[-_STDERR_SHOWN:].strip()
            raise ModelServerError(
                self._command, f"{self._command!r} ended with status {process.returncode}: {shown}"
            )
        return ModelResponse(
            parts=[TextPart(output.decode(errors="replace"))], model_name=self._command
        )


_ANSWER = "# Your earlier answer\n\n"


def as_prompt(messages: list[ModelMessage]) -> str:
    """A conversation as one text, for models that take a single prompt."""
    parts = [f"{_ANSWER if by == 'model' else ''}{content}" for by, content in said(messages)]
    return "\n\n".join(parts) + "\n"
