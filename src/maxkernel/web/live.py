"""Server-sent events: tells pages that a run (or the list of runs) has changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse

from maxkernel.modes.pair import PairSession
from maxkernel.web.studio import Studio

POLL_SECONDS = 0.2
LIST_POLL_SECONDS = 1.0
PING_SECONDS = 15.0
"""A comment line keeps proxies and browsers from closing a quiet stream."""


DRIVEN_SECONDS = 2.0
"""How often it is looked whether some process still drives a run: none says when it leaves."""


def run_mark(client: PairSession) -> Callable[[], tuple[int, bool, int]]:
    """Changes with every event of a run, and when a process begins or ceases to drive it.

    The last number alone changes while an answer is being written.
    """
    driven, looked = client.run.driven(), time.monotonic()

    def mark() -> tuple[int, bool, int]:
        nonlocal driven, looked
        if time.monotonic() - looked > DRIVEN_SECONDS:
            driven, looked = client.run.driven(), time.monotonic()
        state = client.state
        return state.settled, driven, state.revision

    return mark


def stream(
    request: Request, studio: Studio, mark: Callable[[], Any], poll: float
) -> StreamingResponse:
    """Sends `changed` with the value of `mark` whenever it differs from the last one sent."""

    async def events() -> AsyncGenerator[str]:
        last: Any = None
        spoken = time.monotonic()
        while not studio.closing.is_set() and not await request.is_disconnected():
            now = await asyncio.to_thread(mark)
            if now != last:
                data = msgspec.json.encode(now).decode()
                yield f"event: changed\ndata: {data}\n\n"
                last, spoken = now, time.monotonic()
            elif time.monotonic() - spoken > PING_SECONDS:
                yield ": still here\n\n"
                spoken = time.monotonic()
            await asyncio.sleep(poll)

    return StreamingResponse(events(), media_type="text/event-stream")
