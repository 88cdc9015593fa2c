"""Ctrl-C while models are asked: their answers are not waited for."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from maxkernel.engineers.roles import Stopped


@contextmanager
def interruptible(stop: Callable[[], None]) -> Generator[None]:
    """Inside, an interrupt calls `stop`, which ends other threads' questions, and is raised.

    `stop` runs in a thread of its own, since it may need a lock that this one holds. While this
    thread waits for an answer itself, the end of that question raises the interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        again = asked.is_set()
        asked.set()
        threading.Thread(target=stop, name="interrupt").start()
        if again or not _answers_come_here():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    except Stopped:
        if asked.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if asked.is_set():
        raise KeyboardInterrupt


def _answers_come_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
