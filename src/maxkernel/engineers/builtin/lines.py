"""Statements that `ruff format` leaves as they are."""

from __future__ import annotations

from maxkernel.engineers.builtin.text import WIDTH, call


def fitted(line: str, indent: int = 0) -> str:
    """A statement on several lines where it is too long for one."""
    if len(line) + indent <= WIDTH:
        return line
    pad = " " * (len(line) - len(line.lstrip()))
    line = line.rstrip()
    target, sign, rest = line.strip().partition(" = ")
    target, rest = (f"{target}{sign}", rest) if sign else ("", target)
    start = _last_call(rest)
    if start:
        name, inner = rest[:start], rest[start + 1 : -1]
        text = call(name, _split(inner), len(pad) + indent, target)
        return "\n".join(part[indent:] for part in text.split("\n"))
    broken = _broken_sum(rest)
    if broken:
        inner = "\n".join(f"{pad}    {part}" for part in broken)
        return f"{pad}{target}(\n{inner}\n{pad})"
    return line


def _last_call(text: str) -> int:
    """Where the bracket opens that the last letter of a call, or of calls in a chain, closes; 0 for
    any other text."""
    depth, start = 0, 0
    for i, letter in enumerate(text):
        if depth == 0 and letter == "(":
            start = i
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and letter == " ":
            return 0
    return start if text.endswith(")") else 0


def _split(text: str, separator: str = ", ") -> list[str]:
    """The parts of a text between separators outside of brackets."""
    parts, depth, start = list[str](), 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and text.startswith(separator, i):
            parts.append(text[start:i])
            start = i + len(separator)
    return [*parts, text[start:]]


def _broken_sum(text: str) -> list[str]:
    """An expression before each of its outermost operators of the lowest level."""
    for signs in ((" + ", " - "), (" * ", " / ")):
        parts: list[str] = [text]
        for sign in signs:
            parts = [
                f"{sign.strip()} {piece}" if i else piece
                for part in parts
                for i, piece in enumerate(_split(part, sign))
            ]
        if len(parts) > 1:
            return parts
    return []
