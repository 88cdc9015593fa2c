"""Takes what models really answer apart: fences, refusals, cut-off code, wrong JSON."""

from __future__ import annotations

import ast
import json
import re
import threading
from collections import Counter
from typing import Any, Literal, TypeVar

import msgspec

from maxkernel.parsing import parse

T = TypeVar("T")

TroubleKind = Literal[
    "rate_limit",
    "server",
    "connection",
    "timeout",
    "refusal",
    "empty",
    "truncated",
    "no_code",
    "schema",
    "loop",
    "context",
    "model_out",
]
"""What can go wrong with a model; each is handled and counted."""

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.M | re.S)
_OPEN_FENCE = re.compile(r"^[ \t]*(?:```+|~~~+)[ \t]*[\w+-]*[^\n]*\n(.*)\Z", re.M | re.S)
_REFUSAL = re.compile(
    r"\b(I('m| am) (sorry|unable|not able)|I (can(no|')t|won't|will not|must decline)"
    r"|against my guidelines|as an AI)\b",
    re.IGNORECASE,
)
_REFUSAL_LENGTH = 600
"""A longer text without code is chatter, not a refusal."""


class Patience(msgspec.Struct, frozen=True):
    """How long to wait for what."""

    seconds: float = 600.0
    """For one answer of a model behind an API or a command."""
    backoff: float = 1.0
    """Before the first repetition, where the provider gives no time; doubles each time."""


DEFAULT_PATIENCE = Patience()


class BadAnswer(Exception):
    """An answer that cannot be used. `complaint` is what the model is told."""

    def __init__(self, kind: TroubleKind, complaint: str) -> None:
        super().__init__(f"{kind}: {complaint}")
        self.kind: TroubleKind = kind
        self.complaint = complaint


class Troubles:
    """Counts troubles by kind. Thread-safe."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, kind: TroubleKind) -> None:
        """One more of this kind."""
        with self._lock:
            self._counts[kind] += 1

    def counts(self) -> dict[str, int]:
        """A copy of the counts."""
        with self._lock:
            return dict(self._counts)


def code_of(text: str) -> str:
    """The Python module in an answer: fenced or bare, complete, with a `kernel`.

    Raises BadAnswer when there is none, or when it was cut off.
    """
    blocks = [body for _, language, body in _FENCE.findall(text) if _python(language)]
    whole = [block for block in blocks if _defines_kernel(block)]
    if whole:
        return _tidy(max(whole, key=len))
    rest = _FENCE.sub("", text)
    cut = _OPEN_FENCE.search(rest)
    if cut is not None and "def kernel" in rest:
        if _defines_kernel(cut.group(1)):
            return _tidy(cut.group(1))
        raise BadAnswer("truncated", "your code was cut off. Write the whole file, more briefly.")
    if _defines_kernel(rest):
        return _tidy(rest)
    joined = "\n\n".join(blocks)
    if _defines_kernel(joined):
        return _tidy(joined)
    _refuse(text)
    if "def kernel" in text:
        raise BadAnswer("no_code", f"your code is not valid Python: {_syntax_error(blocks, rest)}")
    raise BadAnswer(
        "no_code",
        "answer with the complete Python file in one fenced block; it must define `kernel`.",
    )


def json_of(text: str, kind: type[T]) -> T:
    """The JSON value in an answer, fenced or bare, checked against `kind`."""
    candidates = [body for _, _, body in _FENCE.findall(text)] or [text]
    problem = "no JSON value found"
    for body in candidates:
        for value in _values(body):
            try:
                return msgspec.convert(value, kind, strict=False)
            except msgspec.ValidationError as error:
                problem = str(error)
    _refuse(text)
    if text.count("{") > text.count("}") or text.count("[") > text.count("]"):
        raise BadAnswer("truncated", "your JSON was cut off. Answer more briefly.")
    raise BadAnswer("schema", f"answer with the JSON that was asked for, nothing else: {problem}.")


def prose_of(text: str) -> str:
    """A text answer; raises BadAnswer when it is empty or a refusal."""
    _refuse(text)
    return text.strip()


def _refuse(text: str) -> None:
    if not text.strip():
        raise BadAnswer("empty", "your answer was empty.")
    if len(text) <= _REFUSAL_LENGTH and _REFUSAL.search(text):
        raise BadAnswer(
            "refusal",
            "this is ordinary engineering: a numerical kernel for an accelerator. Please answer.",
        )


def _values(text: str) -> list[Any]:
    """JSON objects and arrays that occur in a text, outermost first, longest first."""
    decoder = json.JSONDecoder()
    found: list[tuple[int, Any]] = []
    place = 0
    while match := re.search(r"[\[{]", text[place:]):
        start = place + match.start()
        try:
            value, end = decoder.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError):
            place = start + 1
            continue
        found.append((end - start, value))
        place = end
    return [value for _, value in sorted(found, key=lambda item: -item[0])]


def _python(language: str) -> bool:
    return language.lower() in ("", "python", "py", "python3")


def _defines_kernel(code: str) -> bool:
    try:
        tree = parse(_tidy(code))
    except (SyntaxError, ValueError, RecursionError):
        return False
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return "kernel" in names | assigned


def _tidy(code: str) -> str:
    return code.strip("\n").expandtabs(4).rstrip() + "\n"


def _syntax_error(blocks: list[str], rest: str) -> str:
    for code in [*blocks, rest]:
        if "def kernel" in code:
            try:
                parse(_tidy(code))
            except (SyntaxError, ValueError, RecursionError) as error:
                return f"{getattr(error, 'msg', error)}, line {getattr(error, 'lineno', '?')}"
    return "no block holds all of it"
