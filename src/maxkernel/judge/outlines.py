"""Asks for outlines of many assignments at once; one that breaks its process costs itself alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maxkernel.config import Settings
from maxkernel.judge import requests
from maxkernel.judge.cache import stage_key
from maxkernel.judge.desk import Desk
from maxkernel.judge.prepared import Prepared
from maxkernel.judge.source import read_source
from maxkernel.types import Candidate, Failure, Tunable
from maxkernel.types.messages import Outline, OutlineReply

BATCH = 16
"""Assignments of one request: a capture that waits behind it waits for some tenths of a second."""

Assignments = Sequence[Mapping[str, Tunable]]


def outlines(
    desk: Desk, settings: Settings, prepared: Prepared, source: str, assignments: Assignments
) -> list[Outline]:
    """One for each assignment, in order."""
    refused = read_source(source)
    if isinstance(refused, Failure):
        return [Outline(failure=refused)] * len(assignments)
    found: list[Outline] = []
    while len(found) < len(assignments):
        part = assignments[len(found) : len(found) + BATCH]
        found += _first(desk, settings, prepared, source, part)
    return found


def _first(
    desk: Desk, settings: Settings, prepared: Prepared, source: str, part: Assignments
) -> list[Outline]:
    """Of some of the assignments, from the first: of one alone where more break the process."""
    digests = [Candidate(source, dict(one)).digest for one in part]
    target = prepared.target.name
    key = stage_key("outline", digests, prepared.task.digest, target, desk.versions)
    request = requests.outline_request(prepared, source, part, settings)
    reply = desk.ask(request, OutlineReply, "capture", key).result()
    if isinstance(reply, OutlineReply) and reply.outlines:
        return list(reply.outlines[: len(part)])
    if len(part) > 1:
        return _first(desk, settings, prepared, source, part[: len(part) // 2])
    empty = Failure("capture", "crash", "no assignment was traced")
    return [Outline(failure=reply if isinstance(reply, Failure) else empty)]
