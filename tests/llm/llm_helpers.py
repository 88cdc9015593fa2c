"""Names of models behind the scripted server, and a desk to ask them at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from fake_llm_server import FakeServer, Say

from maxkernel.engineers.llm import Call, Desk, LlmBudget, Meter, Patience, Spent, parse_model
from maxkernel.engineers.llm.question import Question, Words
from maxkernel.engineers.llm.robust import code_of

T = TypeVar("T")

KEY = "sk-test-0123456789abcdef"
CODE = "def kernel(x):\n    return x\n"
GOOD = Say(f"Here it is.\n\n```python\n{CODE}```\n")
WIRES = ("openai", "anthropic", "google")


def notation(server: FakeServer, wire: str) -> str:
    """How a user names a model behind the server, for each wire format."""
    return {
        "openai": f"openai:gpt-4.1@{server.url}/v1",
        "anthropic": f"anthropic:claude-opus-4-7@{server.url}",
        "google": f"google:gemini-2.5-pro@{server.url}",
        "url": f"{server.url}/v1#some-local-model",
        "ollama": f"ollama:qwen3@{server.url}/v1",
    }[wire]


class Asker:
    """A desk for one role, with its calls at hand."""

    def __init__(
        self,
        *models: str,
        budget: LlmBudget | None = None,
        spent: Spent | None = None,
        seconds: float = 5.0,
    ) -> None:
        self.calls: list[Call] = []
        self.desk = Desk(
            {"implementer": [parse_model(model) for model in models]},
            Meter(budget or LlmBudget(), spent),
            self.calls.append,
            None,
            Patience(seconds=seconds, backoff=0.01),
        )

    def listen(self) -> list[Words]:
        """What is heard from now on."""
        heard: list[Words] = []
        self.desk.listen(heard.append)
        return heard

    def ask(
        self,
        prompt: Callable[[int], str] = lambda room: "write a kernel",
        parse: Callable[[str], T] = code_of,
        tools: tuple[Callable[..., str], ...] = (),
    ) -> T:
        """One question."""
        return self.desk.ask(Question("implementer", "You write kernels.", prompt, parse, tools))


def in_a_running_loop(function: Callable[[], T]) -> T:
    """Calls a function where an event loop runs, as a notebook's cell does.

    In this thread one may run already: the browser's tests leave theirs.
    """

    async def cell() -> T:
        return function()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(cell())
    return function()
