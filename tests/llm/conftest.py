"""A scripted server, keys for it, and a judge with real workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_llm_server import FakeServer
from llm_helpers import KEY

from maxkernel.config import Settings
from maxkernel.executor import local_executor
from maxkernel.judge import Cache, Judge, Prepared
from maxkernel.targets import get_target
from maxkernel.tasks import load_task


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


@dataclass(frozen=True)
class Bench:
    """A judge with real workers, and a task that it has prepared."""

    judge: Judge
    prepared: Prepared
    settings: Settings


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    settings = Settings(cache_dir=str(folder / "cache"), runs_dir=str(folder / "runs"))
    executor = local_executor(settings, allow_no_sandbox=False)
    cache = Cache(settings.cache_path)
    try:
        judge = Judge(executor, get_target("v6e"), settings, cache)
        task = load_task(Path(__file__).parent / "tasks" / "scaled_rows.py")
        yield Bench(judge, judge.prepare(task), settings)
    finally:
        executor.close()
        cache.close()
