"""Answers as server-sent events, in each provider's form."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def _cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[i : i + size] for i in range(0, len(text), size)]


Events = tuple[str, list[str], str]
"""What comes before the pieces of text, the pieces, and what comes after them."""


def _openai_events(reply: dict[str, Any], pieces: int) -> Events:
    def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {k: v for k, v in reply.items() if k not in ("choices", "usage")}
        chunk |= {"object": "chat.completion.chunk", "choices": [choice], **more}
        return f"data: {json.dumps(chunk)}\n\n"

    choice = reply["choices"][0]
    message = dict(choice["message"])
    text = message.pop("content") or ""
    calls = [{"index": n, **call} for n, call in enumerate(message.pop("tool_calls", []))]
    first = message | {"content": ""} | ({"tool_calls": calls} if calls else {})
    end = event({}, choice["finish_reason"])
    if "usage" in reply:
        end += event({}, None, choices=[], usage=reply["usage"])
    texts = [event({"content": piece}) for piece in _cut(text, pieces)]
    return event(first), texts, end + "data: [DONE]\n\n"


def _anthropic_events(reply: dict[str, Any], pieces: int) -> Events:
    def events(*found: dict[str, Any]) -> str:
        return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in found)

    start = {**reply, "content": [], "stop_reason": None}
    before, texts = [{"type": "message_start", "message": start}], list[str]()
    after: list[dict[str, Any]] = []
    for index, block in enumerate(reply["content"]):
        is_text = block["type"] == "text"
        empty = {"type": "text", "text": ""} if is_text else {**block, "input": {}}
        before.append({"type": "content_block_start", "index": index, "content_block": empty})
        deltas = (
            [{"type": "text_delta", "text": piece} for piece in _cut(block["text"], pieces)]
            if is_text
            else [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        )
        kind = "content_block_delta"
        texts += [events({"type": kind, "index": index, "delta": delta}) for delta in deltas]
        after.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    after.append({"type": "message_delta", "delta": stop, "usage": reply["usage"]})
    after.append({"type": "message_stop"})
    return events(*before), texts, events(*after)


def _google_events(reply: dict[str, Any], pieces: int) -> Events:
    def event(parts: list[dict[str, Any]] | None, **more: Any) -> str:
        content = {} if parts is None else {"content": {"role": "model", "parts": parts}}
        chunk = {k: v for k, v in reply.items() if k not in ("candidates", "usageMetadata")}
        found = {"index": 0, **content, **more.pop("candidate", {})}
        return f"data: {json.dumps(chunk | {'candidates': [found], **more})}\r\n\r\n"

    found = reply["candidates"][0]
    parts = found.get("content", {}).get("parts", [])
    texts = [
        event([part])
        for whole in parts
        for part in (
            [{"text": t} for t in _cut(whole["text"], pieces)] if "text" in whole else [whole]
        )
    ]
    end = {"finishReason": found["finishReason"]}
    last = [{"text": ""}] if "content" in found else None
    return "", texts, event(last, candidate=end, usageMetadata=reply["usageMetadata"])


EVENTS: dict[str, Callable[[dict[str, Any], int], Events]] = {
    "openai": _openai_events,
    "anthropic": _anthropic_events,
    "google": _google_events,
}
