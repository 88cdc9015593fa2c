"""Source lines and registers in a schedule: what explains a program and does not time it.

With the flag `SOURCE_FLAG` the compiler ends every instruction of a Mosaic kernel in a comment such
as `/* loc("kernel.py":19:9 to :22) */`. The file's name is the word of the kernel's author. The
compiler escapes quotes, backslashes and control characters in it, so strings are taken out before
anything else is read: no name can add to the program, or hide a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

SOURCE_FLAG = "xla_mosaic_enable_llo_source_annotations"
"""A flag of libtpu; older ones do not know it, and refuse what they do not know."""

_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_PLACE = re.compile(r'"(\d+)":(\d+)')
_REGISTER = re.compile(r"%v\d+_v(0|[1-9]\d{0,2})\b( = )?")
_BITS = {str(number): 1 << number for number in range(1000)}
_LIBRARY = ("site-packages", "dist-packages")
_NAME_LIMIT = 80

Place = tuple[str, int]
"""File (its last part, printable characters only) and line."""


def without_strings(text: str) -> tuple[str, list[str]]:
    """The text with the number of each different string in its place, and the strings."""
    strings: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f'"{strings.setdefault(match[1], len(strings))}"'

    return _STRING.sub(number, text), list(strings)


class Places:
    """The source lines of a program, numbered as they are met."""

    def __init__(self, strings: Sequence[str], comments: Sequence[str] = ()) -> None:
        self._files = [_file(text) for text in strings]
        self._comments = comments
        self._known: dict[Place, int] = {}
        self._met: dict[str, int] = {}
        self.any = any("loc(" in comment for comment in comments)
        """False where no comment names a line."""

    @property
    def found(self) -> tuple[Place, ...]:
        """The lines by number."""
        return tuple(self._known)

    def first(self, kept: Iterable[str]) -> int:
        """The number of the first line that any of these comments names; -1 where none does."""
        for comment in kept:
            found = self._met.get(comment)
            if found is None:
                found = self._met[comment] = self.number(self._comments[int(comment)])
            if found >= 0:
                return found
        return -1

    def number(self, comment: str) -> int:
        """The number of the line that a comment names; -1 where it names none.

        Of a chain of calls, the innermost that is not in an installed library.
        """
        return self._number(comment) if "loc(" in comment else -1

    def _number(self, comment: str) -> int:
        frames = [(self._files[int(file)], int(line)) for file, line in _PLACE.findall(comment)
                  if int(file) < len(self._files)]  # fmt: skip
        own = [frame for frame in frames if not any(part in frame[0] for part in _LIBRARY)]
        if not frames:
            return -1
        path, line = (own or frames)[0]
        return self._known.setdefault((_shown(path), line), len(self._known))


def registers_of(body: str) -> tuple[int, int]:
    """The vector registers that the instructions of a bundle read and write, as bits."""
    reads = writes = 0
    for number, written in _REGISTER.findall(body) if "%v" in body else ():
        if written:
            writes |= _BITS[number]
        else:
            reads |= _BITS[number]
    return reads, writes


def _file(text: str) -> str:
    return re.sub(r"\\(?:[0-9A-Fa-f]{2}|.)", "?", text)


def _shown(path: str) -> str:
    name = "".join(c for c in PurePosixPath(path).name if c.isprintable())
    return name[:_NAME_LIMIT]
