"""Who may talk to the studio, how much, and what a page may do.

The studio answers on 127.0.0.1 without a token, but only to pages of its own: the Host header
must be one of its names (against DNS rebinding) and every change must come from its own origin.
Anywhere else it asks for a token, which the browser keeps in a cookie of this site alone.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = (1 << 20) + (256 << 10)
"""Largest form: a kernel of 1 MiB and some fields."""

COOKIE = "maxkernel-studio"

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Rules:
    """Where the studio listens, and the token that it asks for (none on 127.0.0.1)."""

    hosts: frozenset[str]
    """Host headers that are its own."""
    token: str = ""

    @property
    def cookie(self) -> str:
        """What a browser that knew the token sends from then on; it does not reveal the token."""
        return hashlib.sha256(b"maxkernel studio\0" + self.token.encode()).hexdigest()


class Guard:
    """ASGI middleware: checks every request, limits its body, adds the headers."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        guarded = _with_headers(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, guarded)
            return
        await self._app(scope, _limited(receive), guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._rules.token:
            answer = self._check_token(scope, headers)
            if answer is not None:
                return answer
        elif host not in self._rules.hosts:
            return PlainTextResponse(f"this studio is not {host!r}", 421)
        if scope["method"] not in ("GET", "HEAD") and not _same_origin(headers, host):
            return PlainTextResponse("changes are taken from this studio's own pages only", 403)
        if int(headers.get("content-length") or 0) > MAX_BODY_BYTES:
            return PlainTextResponse(f"the form is larger than {MAX_BODY_BYTES} bytes", 413)
        return None

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        rules = self._rules
        cookies = cookie_parser(headers.get("cookie", ""))
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if _equal(cookies.get(COOKIE, ""), rules.cookie) or _equal(bearer, rules.token):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        given = dict(query).get("token", "")
        if not _equal(given, rules.token):
            return PlainTextResponse(
                "this studio wants its token: open the address that `maxkernel serve` printed", 401
            )
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        answer = RedirectResponse(scope["path"] + (f"?{rest}" if rest else ""), 303)
        answer.set_cookie(COOKIE, rules.cookie, httponly=True, samesite="strict", path="/")
        return answer


def _same_origin(headers: Headers, host: str) -> bool:
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = headers.get("origin")
    if origin is None:
        return site == "same-origin"
    return origin in (f"http://{host}", f"https://{host}")


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending


def _limited(receive: Receive) -> Receive:
    taken = 0

    async def receiving() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY_BYTES:
            return {"type": "http.disconnect"}
        return message

    return receiving
