"""A person at a terminal: a pseudo-terminal, keystrokes in, the screen's text out."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[()].|[=>])")

UP, TAB, ENTER, CTRL_C, CTRL_D = "\x1b[A", "\t", "\r", "\x03", "\x04"


class Terminal:
    """One program in a pseudo-terminal of 110 columns and 45 lines."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.pid, self._handle = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], list(command), dict(environment))
        fcntl.ioctl(self._handle, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 110, 0, 0))
        self.text = ""
        """Everything that was shown so far, without colours and cursor movements."""
        self._read_to = 0
        self._status: int | None = None

    def keys(self, text: str) -> None:
        """Types keys."""
        os.write(self._handle, text.encode())

    def line(self, text: str) -> None:
        """Types a line and presses Enter."""
        self.keys(text)
        self.expect(text[-40:])
        self.keys(ENTER)

    def expect(self, wanted: str, seconds: float = 60.0) -> None:
        """Waits until a text is shown after the last one that was waited for."""
        end = time.monotonic() + seconds
        while (place := _squeezed(self.text).find(_squeezed(wanted), self._read_to)) < 0:
            if time.monotonic() > end or not self._pump():
                raise AssertionError(f"not shown: {wanted!r}; the screen:\n{_shown(self.text)}")
        self._read_to = place + len(_squeezed(wanted))

    def wait(self, seconds: float = 60.0) -> int:
        """Exit status of the program."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self._pump():
                _, status = os.waitpid(self.pid, 0)
                self._status = os.waitstatus_to_exitcode(status)
                return self._status
        raise AssertionError(f"still running; the screen:\n{_shown(self.text)}")

    def kill(self) -> None:
        """Ends the program at once, if it has not ended."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._status = -signal.SIGKILL
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _pump(self) -> bool:
        """Reads what is there; False when the program has closed its terminal."""
        if not select.select([self._handle], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self._handle, 65536).decode(errors="replace")
        except OSError:
            return False
        if "\x1b[6n" in data:
            os.write(self._handle, b"\x1b[1;1R")
        self.text += _ESCAPES.sub("", data).replace("\r", "")
        return bool(data)


def _squeezed(text: str) -> str:
    """Text without the blanks and frames that depend on where lines are folded."""
    return re.sub(r"[\s│]+", "", text)


def _shown(text: str) -> str:
    """The last lines that hold anything."""
    return "\n".join([line for line in text.splitlines() if line.strip()][-40:])
