"""A local HTTP server that speaks the wire formats of OpenAI chat completions, Anthropic messages
and Gemini generateContent, with scripted answers and faults."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
        return "google" if ":generateContent" in self.path else "openai"

    @property
    def text(self) -> str:
        """Everything that was said to the model, as one string."""
        return json.dumps(self.body, ensure_ascii=False)


class FakeServer:
    """Answers requests in the order of its script, or by a function of the request."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._steps: list[Step] = []
        self._respond: Callable[[Request], Step] | None = None
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                body = json.loads(self.rfile.read(length) or b"{}")
                headers = {k.lower(): v for k, v in self.headers.items()}
                server._answer(self, Request(self.path, headers, body, time.monotonic()))

            def do_GET(self) -> None:
                headers = {k.lower(): v for k, v in self.headers.items()}
                server._list(self, Request(self.path, headers, {}, time.monotonic()))

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        """Stops the server."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def script(self, *steps: Step) -> None:
        """What to answer next, in order. The last step is repeated."""
        self._steps = list(steps)
        self._respond = None

    def respond(self, by: Callable[[Request], Step]) -> None:
        """Answers by a function of the request."""
        self._respond = by

    def _list(self, handler: BaseHTTPRequestHandler, request: Request) -> None:
        """Two models, as each provider lists them, for a key that does not start with `bad`."""
        with self._lock:
            self.requests.append(request)
        keys = ("authorization", "x-api-key", "x-goog-api-key")
        if any(request.headers.get(k, "").removeprefix("Bearer ").startswith("bad") for k in keys):
            step = Status(401, "no such key")
            _send(handler, 401, _error(request.wire, step), {})
            return
        names = ("one", "two")
        models = [{"name": f"models/{name}"} for name in names]
        about = {"object": "model", "type": "model", "created": 1, "owned_by": "x"}
        about |= {"display_name": "x", "created_at": "2026-01-01T00:00:00Z"}
        data = [{"id": name, **about} for name in names]
        _send(handler, 200, {"object": "list", "data": data, "models": models}, {})

    def _answer(self, handler: BaseHTTPRequestHandler, request: Request) -> None:
        with self._lock:
            self.requests.append(request)
            if self._respond is not None:
                step = self._respond(request)
            else:
                step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if isinstance(step, Disconnect):
            _disconnect(handler, step)
            return
        if isinstance(step, Status):
            _send(handler, step.code, _error(request.wire, step), step.headers)
            return
        if isinstance(step, Say) and step.seconds:
            time.sleep(step.seconds)
        reply = _WIRES[request.wire](step, request)
        if request.body.get("stream"):
            _send_events(handler, reply)
        else:
            _send(handler, 200, reply, {})


def _send(
    handler: BaseHTTPRequestHandler, code: int, body: dict[str, Any], headers: dict[str, str]
) -> None:
    data = json.dumps(body).encode()
    try:
        handler.send_response(code)
        for name, value in {"content-type": "application/json", **headers}.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)
    except (BrokenPipeError, ConnectionResetError):
        handler.close_connection = True


def _send_events(handler: BaseHTTPRequestHandler, reply: dict[str, Any]) -> None:
    """An Anthropic message as server-sent events: its SDK streams answers that may be long."""
    start = {**reply, "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(reply["content"]):
        if block["type"] == "text":
            empty: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    stop = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": reply["usage"]})
    events.append({"type": "message_stop"})
    text = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("content-length", str(len(text)))
    handler.end_headers()
    handler.wfile.write(text.encode())


def _disconnect(handler: BaseHTTPRequestHandler, step: Disconnect) -> None:
    if step.midway:
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"id": "x", "cho')
        handler.wfile.flush()
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


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


def _error(wire: str, step: Status) -> dict[str, Any]:
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


_WIRES = {"openai": _openai, "anthropic": _anthropic, "google": _google}
