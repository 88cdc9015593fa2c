"""A local HTTP server that speaks the wire formats of OpenAI chat completions, Anthropic messages
and Gemini generateContent, with scripted answers and faults."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fake_llm_events import EVENTS
from fake_llm_replies import WIRES, error_body
from fake_llm_replies import Disconnect as Disconnect
from fake_llm_replies import Request as Request
from fake_llm_replies import Say as Say
from fake_llm_replies import Status as Status
from fake_llm_replies import Step as Step
from fake_llm_replies import Use as Use


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
            _send(handler, 401, error_body(request.wire, step), {})
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
            _send(handler, step.code, error_body(request.wire, step), step.headers)
            return
        if isinstance(step, Say) and step.seconds:
            time.sleep(step.seconds)
        reply = WIRES[request.wire](step, request)
        if request.streams:
            _send_events(handler, request.wire, reply, step)
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


def _send_events(
    handler: BaseHTTPRequestHandler, wire: str, reply: dict[str, Any], step: Say | Use
) -> None:
    """An answer as server-sent events, in pieces, with the faults that the step asks for."""
    pieces = step.pieces if isinstance(step, Say) else 1
    pause, breaks = (step.pause, step.breaks_after) if isinstance(step, Say) else (0.0, 0)
    before, texts, after = EVENTS[wire](reply, pieces)
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    try:
        _chunk(handler, before)
        for place, text in enumerate(texts):
            if place:
                time.sleep(pause)
            _chunk(handler, text)
            if place + 1 == breaks:
                _break(handler)
                return
        _chunk(handler, after)
        handler.wfile.write(b"0\r\n\r\n")
        handler.wfile.flush()
    except (BrokenPipeError, ConnectionResetError):
        handler.close_connection = True


def _chunk(handler: BaseHTTPRequestHandler, text: str) -> None:
    data = text.encode()
    if data:
        handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        handler.wfile.flush()


def _disconnect(handler: BaseHTTPRequestHandler, step: Disconnect) -> None:
    if step.midway:
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"id": "x", "cho')
        handler.wfile.flush()
    _break(handler)


def _break(handler: BaseHTTPRequestHandler) -> None:
    """Resets the connection."""
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True
