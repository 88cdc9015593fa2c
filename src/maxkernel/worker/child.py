"""What a forked child of the capture worker does: locks itself up, captures, writes one frame."""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn

import msgspec

from maxkernel.types.messages import (
    CandidateRequest,
    CaptureReply,
    CaptureRequest,
    FailureReply,
    OutlineReply,
)
from maxkernel.worker import limits, seccomp
from maxkernel.worker.framing import write_frame

OUTPUT_LIMIT = 4096
"""Characters of the candidate's last prints that a reply carries."""


PRINTS_IN_DETAIL = 1000
"""Characters of them that a failure's detail carries."""


Answer = CaptureReply | OutlineReply | FailureReply


class _Tail:
    """A text stream that passes writes on to the parent and keeps the last of them."""

    encoding = "utf-8"

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.kept = ""

    def write(self, text: str) -> int:
        self.kept = (self.kept + text)[-OUTPUT_LIMIT:]
        os.write(self.fd, text.encode(errors="replace")[-OUTPUT_LIMIT:])
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self.fd


def become_candidate(request: CandidateRequest, reply: int, prints: int) -> NoReturn:
    """Never returns: the process ends when its frame is written."""
    status = 1
    try:
        replies, output = _only_pipes(reply, prints)
        limits.limit_candidate(request.seconds, request.memory_bytes)
        seccomp.confine()
        answer = _answer(request)
        write_frame(replies, msgspec.msgpack.encode(_with_prints(answer, output.kept)))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _answer(request: CandidateRequest) -> Answer:
    from maxkernel.worker.capture import capture
    from maxkernel.worker.outline import outline

    return capture(request) if isinstance(request, CaptureRequest) else outline(request)


def _with_prints(answer: Answer, printed: str) -> Answer:
    """The answer with what the candidate printed; a failure carries it after its own detail."""
    if isinstance(answer, CaptureReply):
        return CaptureReply(answer.artifact, printed)
    if isinstance(answer, OutlineReply):
        return answer
    if not printed.strip():
        return answer
    detail = f"{answer.failure.detail}\nprinted before that:\n{printed[-PRINTS_IN_DETAIL:]}"
    return FailureReply(msgspec.structs.replace(answer.failure, detail=detail.strip()))


def _only_pipes(reply: int, prints: int) -> tuple[int, _Tail]:
    """Descriptors: 0 is empty, 1 and 2 the output pipe, 3 the reply pipe, none else."""
    reply, prints = os.dup(reply), os.dup(prints)
    null = os.open(os.devnull, os.O_RDONLY)
    high = [os.dup2(fd, 200 + i, inheritable=False) for i, fd in enumerate((null, prints, reply))]
    os.dup2(high[0], 0)
    os.dup2(high[1], 1)
    os.dup2(high[1], 2)
    os.dup2(high[2], 3)
    os.closerange(4, 4096)
    output = _Tail(1)
    sys.stdout = sys.stderr = output  # type: ignore[assignment]
    return 3, output
