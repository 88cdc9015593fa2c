"""One run as one HTML file that needs nothing else: no server, no network."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from markupsafe import Markup

from maxkernel.errors import UsageError
from maxkernel.modes.pair import PairSession
from maxkernel.web.pages.base import render_text
from maxkernel.web.views.design import design_view
from maxkernel.web.views.run import curve, feed, graph, head

_STATIC = Path(__file__).parent / "static"
_SCRIPTS = ("vendor/d3-7.9.2.min.js", "charts.js")
FEED_LINES = 5000


def export_run(folder: Path, path: Path) -> None:
    """Writes a run to `path`. Raises UsageError when that cannot be written."""
    client = PairSession(folder, "export")
    try:
        text = export_text(client)
    finally:
        client.close()
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def export_text(client: PairSession) -> str:
    """The whole run as HTML. Its policy lets it run its own script alone and load nothing."""
    script = "\n".join(_inline(name) for name in _SCRIPTS)
    style = _inline("studio.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    values = {
        "head": head(client),
        "problem": "",
        "export": True,
        "state": client.state,
        "prepared": client.prepared,
        "task": client.run.header.task,
        "versions": client.run.header.versions,
        "curve": curve(client.run, client.prepared),
        "graph": graph(client),
        "feed": feed(client, FEED_LINES),
        "views": [design_view(client, design.id) for design in client.run.designs()],
        "script": Markup(script),
        "style": Markup(style),
        "policy": policy,
    }
    return render_text("export.html", values)


def _inline(name: str) -> str:
    text = (_STATIC / name).read_text(encoding="utf-8")
    return text.replace("</", "<\\/") if name.endswith(".js") else text


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
