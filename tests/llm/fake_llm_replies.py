"""What a scripted server may do, and its answers and errors in each provider's form."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Say:
    """An answer in text."""

    text: str
    finish: str = "stop"
    """`stop`, `length` (cut off) or `refusal` (the provider's own filter)."""
    input_tokens: int = 100
    output_tokens: int = 20
    usage: bool = True
    seconds: float = 0.0
    """Time before the answer."""
    pieces: int = 1
    """In how many pieces a streamed answer comes."""
    pause: float = 0.0
    """Seconds before each piece but the first."""
    breaks_after: int = 0
    """The connection breaks after so many pieces; 0: it does not."""


@dataclass(frozen=True)
class Use:
    """A call of a tool."""

    tool: str
    arguments: dict[str, Any]
    input_tokens: int = 100
    output_tokens: int = 20


@dataclass(frozen=True)
class Status:
    """An HTTP error."""

    code: int
    message: str = "scripted fault"
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = ""


@dataclass(frozen=True)
class Disconnect:
    """The connection breaks: before anything is sent, or in the middle of the answer."""

    midway: bool = False


Step = Say | Use | Status | Disconnect


@dataclass(frozen=True)
class Request:
    """What arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float

    @property
    def wire(self) -> str:
        """`openai`, `anthropic` or `google`."""
        if self.path.split("?")[0].endswith("/messages"):
            return "anthropic"
        return "google" if "enerateContent" in self.path else "openai"

    @property
    def streams(self) -> bool:
        """The answer is wanted as server-sent events."""
        return bool(self.body.get("stream")) or ":streamGenerateContent" in self.path

    @property
    def text(self) -> str:
        """Everything that was said to the model, as one string."""
        return json.dumps(self.body, ensure_ascii=False)


def _openai(step: Say | Use, request: Request) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    finish = "stop"
    if isinstance(step, Use):
        function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        finish = "tool_calls"
    elif step.finish == "refusal":
        message["refusal"] = step.text
        finish = "content_filter"
    else:
        message["content"] = step.text
        finish = step.finish
    reply: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": request.body.get("model", ""),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if isinstance(step, Use) or step.usage:
        total = step.input_tokens + step.output_tokens
        reply["usage"] = {
            "prompt_tokens": step.input_tokens,
            "completion_tokens": step.output_tokens,
            "total_tokens": total,
        }
    return reply


def _anthropic(step: Say | Use, request: Request) -> dict[str, Any]:
    content: list[dict[str, Any]]
    if isinstance(step, Use):
        content = [
            {"type": "tool_use", "id": "toolu_1", "name": step.tool, "input": step.arguments}
        ]
        stop = "tool_use"
    else:
        content = [{"type": "text", "text": step.text}] if step.text else []
        stop = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal"}[step.finish]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", ""),
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": step.input_tokens, "output_tokens": step.output_tokens},
    }


def _google(step: Say | Use, request: Request) -> dict[str, Any]:
    if isinstance(step, Use):
        parts: list[dict[str, Any]] = [
            {"functionCall": {"name": step.tool, "args": step.arguments}}
        ]
        finish = "STOP"
    else:
        parts = [{"text": step.text}] if step.text else []
        finish = {"stop": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}[step.finish]
    content: dict[str, Any] = {"role": "model", "parts": parts}
    candidate: dict[str, Any] = {"content": content, "finishReason": finish, "index": 0}
    if isinstance(step, Say) and step.finish == "refusal":
        del candidate["content"]
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": step.input_tokens,
            "candidatesTokenCount": step.output_tokens,
            "totalTokenCount": step.input_tokens + step.output_tokens,
        },
        "modelVersion": request.path.split("/models/")[1].split(":")[0],
        "responseId": "response-1",
    }


def error_body(wire: str, step: Status) -> dict[str, Any]:
    if wire == "anthropic":
        kind = step.kind or {429: "rate_limit_error", 401: "authentication_error"}.get(
            step.code, "api_error"
        )
        return {"type": "error", "error": {"type": kind, "message": step.message}}
    if wire == "google":
        status = step.kind or {429: "RESOURCE_EXHAUSTED", 401: "UNAUTHENTICATED"}.get(
            step.code, "INTERNAL"
        )
        return {"error": {"code": step.code, "message": step.message, "status": status}}
    kind = step.kind or {429: "rate_limit_exceeded", 401: "invalid_api_key"}.get(step.code, "error")
    return {"error": {"message": step.message, "type": kind, "code": kind, "param": None}}


WIRES = {"openai": _openai, "anthropic": _anthropic, "google": _google}
