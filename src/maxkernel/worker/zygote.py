"""The capture worker: a fork server. jax is imported once; each candidate gets a fresh child.

This process never runs a candidate's code, starts no jax backend and has one thread, so that a
fork is safe. The child's bytes pass through unread; only their number is limited here.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import struct
import time
from dataclasses import dataclass, field

import msgspec

from maxkernel.types.evaluation import Failure
from maxkernel.types.messages import (
    CAPTURE_FRAME_LIMIT,
    FRAME_LIMIT,
    CaptureRequest,
    FailureReply,
    OutlineRequest,
    PingReply,
    PingRequest,
)
from maxkernel.worker import environment, limits, seccomp
from maxkernel.worker.child import become_candidate
from maxkernel.worker.framing import read_frame, write_frame

OUTPUT_LIMIT = 4096
"""Last bytes of a candidate's output that are kept."""


@dataclass
class _Child:
    pid: int
    replies: int
    prints: int
    frame: bytearray = field(default_factory=bytearray)
    output: bytes = b""

    def frame_size(self) -> int | None:
        """Bytes that the frame will have; None before its length is known."""
        if len(self.frame) < 4:
            return None
        return 4 + struct.unpack(">I", self.frame[:4])[0]


def serve(requests: int, replies: int) -> None:
    """Answers capture requests until the pipe closes."""
    _require_confinement()
    _preload()
    limits.protect_memory()
    limits.use_few_processors()
    decoder = msgspec.msgpack.Decoder(CaptureRequest | OutlineRequest | PingRequest)
    while (body := read_frame(requests, FRAME_LIMIT)) is not None:
        request = decoder.decode(body)
        if isinstance(request, PingRequest):
            write_frame(replies, msgspec.msgpack.encode(PingReply(_versions())))
        else:
            write_frame(replies, _capture(request))
        environment.bound_log()


def _versions() -> dict[str, str]:
    from maxkernel.worker.serve import versions

    return versions()


def _require_confinement() -> None:
    """Tries the system call filter in a child. Raises SeccompError where it cannot be had."""
    pid = os.fork()
    if pid == 0:
        try:
            seccomp.confine()
            os._exit(0)
        except OSError:
            os._exit(1)
    if os.waitpid(pid, 0)[1] != 0:
        raise seccomp.SeccompError(
            errno.ENOSYS, "candidates need seccomp filters: Linux on x86-64 or aarch64"
        )


def _preload() -> None:
    """Imports what a first trace and export would import, and nothing that starts threads."""
    from maxkernel.worker import preload

    preload.everything()


def _capture(request: CaptureRequest | OutlineRequest) -> bytes:
    """The reply's body: the child's own, or a failure when it gave none in time."""
    deadline = time.monotonic() + request.seconds
    child = _fork(request)
    try:
        late = _listen(child, deadline)
    finally:
        os.close(child.replies)
        os.close(child.prints)
        status = _end(child.pid)
    size = child.frame_size()
    if size is not None and size - 4 > CAPTURE_FRAME_LIMIT:
        return _failed(
            "crash",
            f"the program is larger than {CAPTURE_FRAME_LIMIT >> 20} MiB",
            "build large arrays inside the kernel instead of baking them in",
        )
    if size is not None and len(child.frame) >= size:
        return bytes(child.frame[4:size])
    return _no_reply(request, status, late, child.output.decode(errors="replace"))


def _fork(request: CaptureRequest | OutlineRequest) -> _Child:
    reply_read, reply_write = os.pipe()
    print_read, print_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        become_candidate(request, reply_write, print_write)
    os.close(reply_write)
    os.close(print_write)
    return _Child(pid, reply_read, print_read)


def _listen(child: _Child, deadline: float) -> bool:
    """Reads until the frame is whole or oversized or the child closed it; True when late."""
    with selectors.DefaultSelector() as selector:
        selector.register(child.replies, selectors.EVENT_READ)
        selector.register(child.prints, selectors.EVENT_READ)
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return True
            for key, _ in selector.select(remaining):
                part = os.read(key.fd, 1 << 16)
                if key.fd == child.prints:
                    child.output = (child.output + part)[-OUTPUT_LIMIT:]
                    if not part:
                        selector.unregister(child.prints)
                    continue
                child.frame += part
                size = child.frame_size()
                whole = size is not None and (
                    len(child.frame) >= size or size - 4 > CAPTURE_FRAME_LIMIT
                )
                if whole or not part:
                    _drain(child)
                    return False


def _drain(child: _Child) -> None:
    """The last of what was printed, without waiting for more."""
    os.set_blocking(child.prints, False)
    try:
        while part := os.read(child.prints, 1 << 16):
            child.output = (child.output + part)[-OUTPUT_LIMIT:]
    except BlockingIOError:
        pass


def _end(pid: int) -> int:
    """Kills and reaps the child; its wait status.

    A child that is about to exit by itself gets a moment, so that its own status is seen.
    """
    for _ in range(50):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _no_reply(
    request: CaptureRequest | OutlineRequest, status: int, late: bool, output: str
) -> bytes:
    if late or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return _failed(
            "timeout",
            f"capture took longer than {request.seconds:g} s",
            "tracing must end quickly: no long Python loops, no sleeping",
            output,
        )
    if "bad_alloc" in output or "MemoryError" in output or "Out of memory" in output:
        return _failed(
            "memory",
            f"the candidate's process outgrew {request.memory_bytes / 2**30:.1f} GiB",
            "tracing needs no big arrays: take them as inputs",
            output,
        )
    if os.WIFSIGNALED(status):
        how = f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
    else:
        how = f"exited with status {os.WEXITSTATUS(status)}"
    return _failed(
        "crash",
        f"the candidate's process {how} before the program was captured",
        "a candidate defines kernel and must not end or leave its process",
        output,
    )


def _failed(kind: str, message: str, advice: str, output: str = "") -> bytes:
    failure = Failure("capture", kind, message, advice, output.strip())  # type: ignore[arg-type]
    return msgspec.msgpack.encode(FailureReply(failure))
