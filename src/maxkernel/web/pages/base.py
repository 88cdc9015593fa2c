"""Renders templates: escaped always, with the filters that pages share."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from maxkernel.report import quote, quote_time

_NUMBERED = re.compile(r"^ *\d+  ", re.MULTILINE)

_ENVIRONMENT: Any = Environment(
    loader=PackageLoader("maxkernel.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(
    template: str,
    values: Mapping[str, Any],
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> HTMLResponse:
    """A page or a part of one."""
    return HTMLResponse(render_text(template, values), status, dict(headers or {}))


def render_text(template: str, values: Mapping[str, Any]) -> str:
    """The text of a page or a part of one."""
    return _ENVIRONMENT.get_template(template).render(values)


def _data(value: Any) -> Markup:
    """JSON for a data block: nothing in it can end the block or start a comment."""
    text = json.dumps(value, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _micro(seconds: float | None) -> str:
    """A time in microseconds, or in milliseconds from one on."""
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.4g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.4g} us"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if abs(count) < 1000:
            return f"{count:.4g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _first_line(text: str) -> str:
    first, *rest = text.strip().splitlines() or [""]
    return f"{first} ..." if rest else first


def _listing(text: str) -> bool:
    """True for text that shows numbered lines of a program."""
    return _NUMBERED.search(text) is not None


_ENVIRONMENT.filters.update(
    data=_data,
    first_line=_first_line,
    micro=_micro,
    bytes=_bytes,
    clock=_clock,
    day=_day,
    quote=quote,
    quote_time=quote_time,
)
_ENVIRONMENT.tests.update(listing=_listing)
_ENVIRONMENT.globals.update(nonce=lambda: secrets.token_hex(8))
