"""Reads forms, and answers them: a message in place for scripts, a redirect without."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from maxkernel.errors import MaxkernelError, UsageError
from maxkernel.web.pages.base import render

MAX_FIELDS = 40

Form = dict[str, str]
Handler = Callable[[Request, Form], str | None]
"""Carries out a form; where to go next, or None to stay."""


def taking(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that reads a form and runs `handler` in a thread."""

    async def endpoint(request: Request) -> Response:
        try:
            form = _parse(await request.body())
        except ClientDisconnect:
            return PlainTextResponse("the form is too large", 413)
        except (UsageError, UnicodeDecodeError, ValueError) as error:
            return PlainTextResponse(f"not a form: {error}", 400)
        try:
            target = await asyncio.to_thread(handler, request, form)
        except MaxkernelError as error:
            return _refused(request, error)
        return _done(request, target)

    return endpoint


def number(form: Form, name: str, at_least: int = 1) -> int | None:
    """A whole number of a form, None where the field is empty."""
    text = form.get(name, "").strip()
    if not text:
        return None
    if not text.isdigit() or int(text) < at_least or len(text) > 9:
        raise UsageError(f"{name}: {text!r} is not a whole number of at least {at_least}")
    return int(text)


def _parse(body: bytes) -> Form:
    pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def _done(request: Request, target: str | None) -> Response:
    if "hx-request" in request.headers:
        headers = {"HX-Redirect": target} if target else {}
        return render("flash.html", {"message": "", "advice": ""}, headers=headers)
    return RedirectResponse(target or _back(request), 303)


def _refused(request: Request, error: MaxkernelError) -> Response:
    if "hx-request" in request.headers:
        values = {"message": error.message, "advice": error.advice}
        return render("flash.html", values, status=422)
    text = f"{error.message}\n{error.advice}".strip()
    return PlainTextResponse(text, 400)


def _back(request: Request) -> str:
    """The page that the form was on: a path of this site."""
    path = urlsplit(request.headers.get("referer", "")).path
    return path if path.startswith("/") and not path.startswith("//") else "/"
