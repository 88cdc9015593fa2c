"""Outlines are asked for in batches; what breaks the process of one costs the others nothing."""

from __future__ import annotations

from concurrent.futures import Future
from typing import cast

import pytest
from graph_world import prepared

from maxkernel.config import Settings
from maxkernel.executor import Executor
from maxkernel.judge.desk import Desk
from maxkernel.judge.outlines import BATCH, outlines
from maxkernel.types import Failure
from maxkernel.types.messages import (
    FailureReply,
    Outline,
    OutlineReply,
    OutlineRequest,
    PingReply,
    Reply,
    Request,
)

SOURCE = """
TUNABLES = {"rows": (1, 2)}

def kernel(x, rows):
    return x
"""


class Office:
    """Answers outline requests; a request that holds a bad assignment dies."""

    sandbox = "none"

    def __init__(self, bad: set[int], each: int) -> None:
        self.bad, self.each = bad, each
        self.asked: list[int] = []

    def submit(self, request: Request) -> Future[Reply]:
        """The reply, at once."""
        future: Future[Reply] = Future()
        future.set_result(self._reply(request))
        return future

    def _reply(self, request: Request) -> Reply:
        if not isinstance(request, OutlineRequest):
            return PingReply({})
        rows = [int(a["rows"]) for a in request.assignments]
        self.asked.append(len(rows))
        if self.bad & set(rows):
            return FailureReply(Failure("capture", "crash", "it died"))
        return OutlineReply(tuple(Outline(str(n)) for n in rows[: self.each]))


@pytest.mark.parametrize(("bad", "each"), [(set[int](), 100), ({3, 17}, 100), ({0}, 5), ({39}, 1)])
def test_every_assignment_has_its_own_outline(bad: set[int], each: int) -> None:
    office = Office(bad, each)
    desk = Desk(cast(Executor, office), None)
    wanted = [{"rows": n} for n in range(40)]
    found = outlines(desk, Settings(), prepared(), SOURCE, wanted)
    assert [o.digest for o in found] == ["" if n in bad else str(n) for n in range(40)]
    assert [n for n, o in enumerate(found) if o.failure is not None] == sorted(bad)
    assert max(office.asked) == BATCH
    if not bad and each >= BATCH:
        assert len(office.asked) == 3


def test_a_reply_without_outlines_is_a_crash() -> None:
    desk = Desk(cast(Executor, Office(set(), 0)), None)
    (found,) = outlines(desk, Settings(), prepared(), SOURCE, [{"rows": 1}])
    assert found.failure is not None and found.failure.kind == "crash"


def test_the_gate_comes_first() -> None:
    office = Office(set(), 100)
    desk = Desk(cast(Executor, office), None)
    found = outlines(desk, Settings(), prepared(), "import os\n" + SOURCE, [{}, {}])
    assert [o.failure.kind for o in found if o.failure] == ["forbidden", "forbidden"]
    assert not office.asked
