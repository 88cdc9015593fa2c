"""One worker process: started, asked, watched, killed."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from maxkernel.executor.tree import kill_family, kill_group, private_bytes, scheduled

TICK = 0.5
"""Seconds between two looks at a busy worker: its time and its memory."""

LOG_TAIL = 3000
"""Last bytes of a dead worker's own output that its failure carries."""

STARVED = 4.0
"""How many times its limit a request may take on a machine that gives its worker too little."""

FaultKind = Literal["died", "timeout", "memory", "frame"]


class WorkerFault(Exception):
    """A worker gave no usable reply; it is dead by now."""

    def __init__(self, kind: FaultKind, message: str, log: str = "") -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.log = log
        self.killed = False
        """Somebody else sent it SIGKILL: a person, or a machine that ran out of memory."""


class Deadline:
    """When a request has taken too long: in wall time, less what others took of the processors.

    What a kernel is found to be must not depend on what else the machine does. Of every tick
    counts the share that the worker's threads ran, of the time that they ran or waited for a
    processor; all of it where they did neither. No request takes more than STARVED limits.
    """

    def __init__(self, pid: int, seconds: float) -> None:
        self._pid = pid
        self._seconds = seconds
        self._start = self._looked = time.monotonic()
        self._counted = 0.0
        self._before: dict[int, tuple[int, int]] | None = None

    def passed(self) -> bool:
        """Whether the worker is to be ended; to be asked every TICK."""
        now, threads = time.monotonic(), scheduled(self._pid)
        before = threads if self._before is None else self._before
        ran = waited = 0
        for thread, (run, wait) in threads.items():
            earlier = before.get(thread, (0, 0))
            ran += max(0, run - earlier[0])
            waited += max(0, wait - earlier[1])
        share = ran / (ran + waited) if waited else 1.0
        self._counted += share * (now - self._looked)
        self._looked, self._before = now, threads
        return max(self._counted, (now - self._start) / STARVED) >= self._seconds


class WorkerProcess:
    """A process that answers one frame with one frame. Not thread-safe but for `kill`.

    The thread that starts it must outlive it: its end is the worker's end (parent-death signal).
    """

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.folder = folder
        self._log = folder.with_name(folder.name + ".log")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests = self._process.stdin.fileno()
        self._replies = self._process.stdout.fileno()
        os.set_blocking(self._requests, False)
        os.set_blocking(self._replies, False)
        self.answered = 0

    @property
    def pid(self) -> int:
        """Process id on the host; under a sandbox, that of the sandbox's own process."""
        return self._process.pid

    def ask(self, body: bytes, seconds: float, memory_bytes: int, limit: int) -> bytes:
        """The reply's body, at most `limit` bytes.

        Raises WorkerFault when the worker dies, takes longer than `seconds` (see Deadline), holds
        more than `memory_bytes`, or announces a larger frame. The worker is killed then.
        """
        looked = time.monotonic()
        deadline = Deadline(self.pid, seconds)
        outgoing = memoryview(struct.pack(">I", len(body)) + body)
        incoming = bytearray()
        needed = 4
        with selectors.DefaultSelector() as selector:
            selector.register(self._requests, selectors.EVENT_WRITE)
            selector.register(self._replies, selectors.EVENT_READ)
            while len(incoming) < needed:
                now = time.monotonic()
                if now >= looked + TICK:
                    self._watch(deadline, seconds, memory_bytes)
                    looked = now
                for key, _ in selector.select(TICK):
                    if key.fd == self._requests:
                        outgoing = self._send(outgoing)
                        if not outgoing:
                            selector.unregister(self._requests)
                        continue
                    incoming += self._receive()
                    if len(incoming) >= 4:
                        needed = 4 + struct.unpack(">I", incoming[:4])[0]
                        if needed - 4 > limit:
                            raise self._fault("frame", f"it announced {needed - 4} bytes")
        self.answered += 1
        if len(incoming) > needed:
            raise self._fault("frame", "it wrote more than one reply")
        return bytes(incoming[4:needed])

    def _send(self, outgoing: memoryview) -> memoryview:
        try:
            return outgoing[os.write(self._requests, outgoing[: 1 << 16]) :]
        except BlockingIOError:
            return outgoing
        except BrokenPipeError:
            raise self._death() from None

    def _receive(self) -> bytes:
        try:
            part = os.read(self._replies, 1 << 20)
        except BlockingIOError:
            return b""
        if not part:
            raise self._death()
        return part

    def _watch(self, deadline: Deadline, seconds: float, memory_bytes: int) -> None:
        if self._process.poll() is not None:  # a child that it left may hold the pipe open
            raise self._death()
        if deadline.passed():
            raise self._fault("timeout", f"it took longer than {seconds:g} s")
        if private_bytes(self.pid) > memory_bytes:
            raise self._fault("memory", f"it outgrew {memory_bytes / 2**30:.1f} GiB")

    def _death(self) -> WorkerFault:
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return self._fault("died", "it closed its pipe")
        number = -status if status < 0 else status - 128
        if number <= 0:
            return self._fault("died", f"it exited with status {status}")
        fault = self._fault("died", f"it was killed by signal {number}")
        fault.killed = number == signal.SIGKILL
        return fault

    def _fault(self, kind: FaultKind, message: str) -> WorkerFault:
        self.kill()
        return WorkerFault(kind, message, self._log_tail())

    def _log_tail(self) -> str:
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL))
                return log.read().decode(errors="replace").strip()
        except OSError:
            return ""

    def kill(self) -> None:
        """Kills the whole family. May be called from any thread, more than once."""
        if self._process.poll() is None:
            kill_family(self.pid)
        else:
            kill_group(self.pid)  # what it left: one killed as it starts can leave a child

    def close(self) -> None:
        """Ends the worker, kindly at first, and removes its folder."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait(10)
        self._process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._log.unlink(missing_ok=True)
