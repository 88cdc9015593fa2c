"""Imports what the first question needs while the program still waits for something else."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable

from maxkernel.engineers.llm.models import Kind, ModelSpec

_NEEDS: dict[Kind, str] = {
    "anthropic": "pydantic_ai.models.anthropic",
    "google": "pydantic_ai.models.google",
    "openai": "pydantic_ai.models.openai",
    "ollama": "pydantic_ai.models.openai",
    "url": "pydantic_ai.models.openai",
}


def warm_up(specs: Iterable[ModelSpec]) -> threading.Thread:
    """Starts a thread that imports the SDKs of these models: that takes a second or more.

    What cannot be imported is left to whoever asks, who says what is missing.
    """
    modules = ["maxkernel.engineers.llm.talk"]
    modules += [_NEEDS[spec.kind] for spec in specs if spec.kind in _NEEDS]

    def load() -> None:
        for module in dict.fromkeys(modules):
            try:
                importlib.import_module(module)
            except ImportError:
                return

    thread = threading.Thread(target=load, name="model imports")
    thread.start()
    return thread
