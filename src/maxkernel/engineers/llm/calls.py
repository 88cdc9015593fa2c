"""Every question and answer as a plain value: for the run file, for people, and for replays."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from maxkernel.engineers.llm.budget import Spent
from maxkernel.errors import UsageError
from maxkernel.store import RunFile

EVENT = "call"
"""Kind of the run file's events that hold calls."""
TOOL_EVENT = "tool evaluation"
"""Kind of those that count what tools had judged."""

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SECRET_LENGTH = 8


class Call(msgspec.Struct, frozen=True):
    """One request to a model and what came back."""

    role: str
    model: str
    request: str
    """JSON list of `{"by": ..., "text": ...}`: everything the model was told, in order."""
    answer: str = ""
    """The answer as JSON, complete enough to be replayed; empty when the request failed."""
    text: str = ""
    """The answer's text, for people."""
    error: str = ""
    """What went wrong, as `kind: message`."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """US dollars; None where the price is not known."""
    estimated: bool = False
    """The token counts are estimates: the provider gave none."""
    replayed: bool = False
    """A record answered: `cost` is what the answer cost once, and nothing was spent now."""
    seconds: float = 0.0
    at: float = 0.0
    """Unix time of the request."""

    @property
    def digest(self) -> str:
        """Names the question: SHA-256 of role and request, the same on every machine."""
        return hashlib.sha256(f"{self.role}\0{self.request}".encode()).hexdigest()


Record = Callable[[Call], None]
"""Called once per request, in the thread that asked."""


def redacted(call: Call) -> Call:
    """The call without any secret of this process's environment."""
    return msgspec.structs.replace(
        call,
        model=without_secrets(call.model),
        request=without_secrets(call.request),
        answer=without_secrets(call.answer),
        text=without_secrets(call.text),
        error=without_secrets(call.error),
    )


def without_secrets(text: str) -> str:
    """`text` without any secret of this process's environment, plain or in JSON."""
    for secret in _secrets():
        text = text.replace(secret, "[redacted]").replace(json.dumps(secret)[1:-1], "[redacted]")
    return text


def holds_secret(text: str) -> bool:
    """True when a secret of this process's environment occurs in `text`."""
    return any(secret in text for secret in _secrets())


def _secrets() -> list[str]:
    return [
        value
        for name, value in os.environ.items()
        if _SECRET_NAME.search(name) and len(value) >= _SECRET_LENGTH
    ]


def spent_by(calls: Iterable[Call]) -> Spent:
    """What a list of calls has used; restores a meter after a resume."""
    spent = Spent()
    for call in calls:
        cost = 0.0 if call.replayed else call.cost
        spent = spent.plus(call.input_tokens, call.output_tokens, cost)
    return spent


def record_into(run: RunFile) -> Record:
    """Writes every call into the run file, durable before the answer is used."""
    return lambda call: _append(run, call)


def _append(run: RunFile, call: Call) -> None:
    run.event(EVENT, **msgspec.to_builtins(call))


def calls_of(run: RunFile) -> list[Call]:
    """All calls of a run, oldest first."""
    return [msgspec.convert(event.body, Call) for event in run.events() if event.kind == EVENT]


def tool_evaluations(run: RunFile) -> int:
    """How many evaluations tools have caused in a run so far."""
    return sum(event.kind == TOOL_EVENT for event in run.events())


def readable(call: Call) -> str:
    """A call for people: everything that was said, in order, and what it cost."""
    cost = "price unknown" if call.cost is None else f"${call.cost:.4f}"
    cost = f"replayed, cost {cost} once" if call.replayed else cost
    about = "about " if call.estimated else ""
    lines = [
        f"=== {call.role} asks {call.model} ({about}{call.input_tokens} tokens in, "
        f"{call.output_tokens} out, {cost}, {call.seconds:.1f} s)"
    ]
    lines += [f"--- {part['by']}\n{part['text']}" for part in json.loads(call.request)]
    lines.append(f"--- failed\n{call.error}" if call.error else f"--- answer\n{call.text}")
    return "\n".join(lines)


def write_traffic(path: Path, calls: Iterable[Call]) -> None:
    """A file that `read_traffic` reads: one call per line, whoever answered it."""
    with path.open("wb") as file:
        for call in calls:
            file.write(msgspec.json.encode(msgspec.structs.replace(call, replayed=False)) + b"\n")


def read_traffic(path: Path) -> list[Call]:
    """The calls of a recorded file; raises UsageError when it is not one."""
    try:
        lines = path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Call) for line in lines if line.strip()]
    except OSError as error:
        raise UsageError(f"cannot read recorded traffic {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is no recorded traffic: {error}") from error


def canonical(messages: Iterable[tuple[str, Any]]) -> str:
    """The `request` of a call from (by, content) pairs: no ids, no times, so it can be compared."""
    said = [
        {"by": by, "text": content if isinstance(content, str) else _json(content)}
        for by, content in messages
    ]
    return json.dumps(said, ensure_ascii=False)


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, sort_keys=True, default=str)
