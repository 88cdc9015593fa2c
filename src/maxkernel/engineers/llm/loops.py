"""Running a coroutine to its end from ordinary code, also where an event loop already runs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's value.

    A notebook's cell runs inside an event loop, and a loop cannot be entered twice in one
    thread: there the coroutine gets a thread of its own.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1, thread_name_prefix="maxkernel-model") as thread:
        return thread.submit(copy_context().run, asyncio.run, coroutine).result()
