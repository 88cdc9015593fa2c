"""Reads what a capture answered, which a candidate may have forged."""

from __future__ import annotations

import re
from typing import Any, cast, get_args

import msgspec

from maxkernel.types import Failure, FailureKind
from maxkernel.types.messages import (
    CaptureReply,
    FailureReply,
    Outline,
    OutlineReply,
    PingReply,
    Reply,
)

TEXT_LIMIT = 4096
"""Characters that any text in a reply keeps."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Everything that could steer a terminal or reorder text; tab and newline stay."""

_NOT_ITS_BUSINESS = {"environment", "reference", "inputs", "schedule", "too_fast", "mismatch"}
_KINDS = set(get_args(FailureKind)) - _NOT_ITS_BUSINESS


class HostileDecoder:
    """Decodes capture replies: only their types, with short and harmless texts."""

    def __init__(self) -> None:
        self._decoder = msgspec.msgpack.Decoder(
            CaptureReply | OutlineReply | FailureReply | PingReply
        )

    def decode(self, buf: bytes, /) -> Reply:
        """The reply. Raises msgspec.MsgspecError where any field is not what it should be."""
        reply = cast(Reply, scrub(self._decoder.decode(buf)))
        if isinstance(reply, FailureReply):
            return FailureReply(_own(reply.failure))
        if isinstance(reply, OutlineReply):
            return OutlineReply(tuple(_own_outline(one) for one in reply.outlines))
        return reply


def scrub(value: Any) -> Any:
    """The same value with every text in it cut and without control characters."""
    if isinstance(value, str):
        return _CONTROL.sub("?", value[:TEXT_LIMIT])
    if isinstance(value, msgspec.Struct):
        fields = {name: scrub(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, tuple):
        return tuple(scrub(item) for item in cast("tuple[Any, ...]", value))
    if isinstance(value, dict):
        return {scrub(k): scrub(v) for k, v in cast("dict[Any, Any]", value).items()}
    return value


def _own(failure: Failure) -> Failure:
    """A capture can fail only as a capture, and never by a fault of the machine or the task."""
    kind = failure.kind if failure.kind in _KINDS else "crash"
    return msgspec.structs.replace(failure, stage="capture", kind=kind)


def _own_outline(outline: Outline) -> Outline:
    if outline.failure is None:
        return outline
    return msgspec.structs.replace(outline, failure=_own(outline.failure))
