"""Frames on a pipe, as a worker sees them: a big-endian 32-bit length and a body."""

from __future__ import annotations

import os
import struct


def read_exact(fd: int, count: int) -> bytes | None:
    """Exactly `count` bytes from `fd`; None when the pipe closes first."""
    parts: list[bytes] = []
    while count:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def read_frame(fd: int, limit: int) -> bytes | None:
    """The next body; None at the end of the stream.

    Raises ValueError when the announced length is over `limit` bytes.
    """
    header = read_exact(fd, 4)
    if header is None:
        return None
    (length,) = struct.unpack(">I", header)
    if length > limit:
        raise ValueError(f"a frame of {length} bytes is over the limit of {limit}")
    return read_exact(fd, length)


def write_frame(fd: int, body: bytes) -> None:
    """Writes length and body, whole."""
    for part in (struct.pack(">I", len(body)), body):
        view = memoryview(part)
        while view:
            view = view[os.write(fd, view) :]
