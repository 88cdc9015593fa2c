"""A session: workers, cache and judge, opened together and closed together."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from maxkernel.config import Settings, load_settings
from maxkernel.executor import Executor, open_executor
from maxkernel.judge import Cache, Judge
from maxkernel.targets import Target, get_target


@dataclass(frozen=True)
class Session:
    """Open workers and a judge for one target."""

    executor: Executor
    judge: Judge
    target: Target
    settings: Settings


@contextmanager
def open_session(
    target: str,
    *,
    settings: Settings | None = None,
    unsafe_no_sandbox: bool = False,
    use_cache: bool = True,
) -> Generator[Session]:
    """Opens a session; leaving it ends every worker.

    Raises UsageError for an unknown target, EnvironmentFault when no sandbox can be used and
    `unsafe_no_sandbox` is not set.
    """
    settings = settings or load_settings()
    known = get_target(target)
    executor = open_executor(settings, allow_no_sandbox=unsafe_no_sandbox)
    cache = Cache(settings.cache_path) if use_cache else None
    executor.warm()
    try:
        yield Session(executor, Judge(executor, known, settings, cache), known, settings)
    finally:
        executor.close()
        if cache is not None:
            cache.close()
