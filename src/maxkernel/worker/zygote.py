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
    CandidateRequest,
    FailureReply,
    PingReply,
    PingRequest,
)
from maxkernel.worker import environment, limits, seccomp
from maxkernel.worker.child import become_candidate
from maxkernel.worker.framing import read_frame, write_frame

OUTPUT_LIMIT = 4096
"""Last bytes of a candidate's output that are kept."""

KILLED_AGAIN = 3
"""How often a child is started once more that ended by a SIGKILL which nobody here sent."""


@dataclass
class _Child:
    pid: int
    replies: int
    prints: int
    frame: bytearray = field(default_factory=bytearray)
    output: bytes = b""
    late: bool = False
    status: int = 0
    """As waitpid tells it."""
    killed: bool = False
    """By a SIGKILL that was not sent here, and that neither its processor time nor its memory
    explains (a kernel that runs out of memory kills with that signal too)."""

    def frame_size(self) -> int | None:
        """Bytes that the frame will have; None before its length is known."""
        if len(self.frame) < 4:
            return None
        return 4 + struct.unpack(">I", self.frame[:4])[0]

    def whole(self) -> bool:
        """Whether the frame is complete."""
        size = self.frame_size()
        return size is not None and len(self.frame) >= size


def serve(requests: int, replies: int) -> None:
    """Answers capture requests until the pipe closes."""
    _require_confinement()
    _preload()
    limits.protect_memory()
    limits.use_few_processors()
    decoder = msgspec.msgpack.Decoder(CandidateRequest | PingRequest)
    while (body := read_frame(requests, FRAME_LIMIT)) is not None:
        request = decoder.decode(body)
        if isinstance(request, PingRequest):
            write_frame(replies, msgspec.msgpack.encode(PingReply(_versions())))
        else:
            write_frame(replies, _capture(request))
        environment.bound_log()


def _try_confinement() -> int:
    """The wait status of a child that confines itself."""
    pid = os.fork()
    if pid == 0:
        try:
            seccomp.confine()
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def _versions() -> dict[str, str]:
    from maxkernel.worker.serve import versions

    return versions()


def _require_confinement() -> None:
    """Tries the system call filter in a child. Raises SeccompError where it cannot be had."""
    status = _try_confinement()
    if _by_sigkill(status):  # by somebody else: that says nothing of this machine
        status = _try_confinement()
    if status != 0:
        raise seccomp.SeccompError(
            errno.ENOSYS, "candidates need seccomp filters: Linux on x86-64 or aarch64"
        )


def _preload() -> None:
    """Imports what a first trace and export would import, and nothing that starts threads."""
    from maxkernel.worker import preload

    preload.everything()


def _capture(request: CandidateRequest) -> bytes:
    """The reply's body: the child's own, or a failure when it gave none in time."""
    child = _run(request)
    size = child.frame_size()
    if size is not None and size - 4 > CAPTURE_FRAME_LIMIT:
        return _failed(
            "crash",
            f"the program is larger than {CAPTURE_FRAME_LIMIT >> 20} MiB",
            "build large arrays inside the kernel instead of baking them in",
        )
    if child.whole():
        return bytes(child.frame[4:size])
    return _no_reply(request, child)


def _run(request: CandidateRequest) -> _Child:
    """A child that has ended. One that others killed says nothing of its candidate: another one
    is started, a few times and within the request's time, since candidates can kill themselves."""
    deadline = time.monotonic() + request.seconds
    again = KILLED_AGAIN
    while True:
        child = _fork(request)
        try:
            child.late = _listen(child, deadline)
        finally:
            os.close(child.replies)
            os.close(child.prints)
            _end(child, request)
        if child.whole() or not child.killed or not again:
            return child
        again -= 1


def _fork(request: CandidateRequest) -> _Child:
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


def _end(child: _Child, request: CandidateRequest) -> None:
    """Kills and reaps the child, and notes how it ended.

    A child that is about to exit by itself gets a moment, so that its own status is seen.
    """
    for _ in range(50):
        done, child.status, used = os.wait4(child.pid, os.WNOHANG)
        if done:
            spent = used.ru_utime + used.ru_stime >= limits.cpu_seconds(request.seconds)
            large = used.ru_maxrss << 10 > request.memory_bytes // 2
            child.killed = _by_sigkill(child.status) and not (child.late or spent or large)
            return
        time.sleep(0.001)
    os.kill(child.pid, signal.SIGKILL)
    child.status = os.waitpid(child.pid, 0)[1]


def _by_sigkill(status: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _no_reply(request: CandidateRequest, child: _Child) -> bytes:
    status, late, output = child.status, child.late, child.output.decode(errors="replace")
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
        how += f", {1 + KILLED_AGAIN} times in a row," if child.killed else ""
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
