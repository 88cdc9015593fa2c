"""How the run file keeps values: msgpack, which holds infinities and bytes as they are.

A leading zero byte, with which no JSON text begins, tells it from the JSON of older files.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_MARK = b"\0"


def encode(value: Any) -> bytes:
    """A value that msgspec knows, as a body."""
    return _MARK + msgspec.msgpack.encode(value)


def decode(body: bytes, kind: type[T]) -> T:
    """The value of a body; raises msgspec.MsgspecError when it is not of that type."""
    if body.startswith(_MARK):
        return msgspec.msgpack.decode(body[1:], type=kind)
    return msgspec.json.decode(body, type=kind)
