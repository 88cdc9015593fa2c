"""A scripted server, and keys for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_llm_server import FakeServer
from llm_helpers import KEY


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "MAXKERNEL_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    started = FakeServer()
    yield started
    started.close()
