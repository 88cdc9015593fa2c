"""The list of runs, and the form that opens a session."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from maxkernel.errors import UsageError
from maxkernel.modes.pair import Approve
from maxkernel.store import list_runs
from maxkernel.targets import TARGETS
from maxkernel.web.forms import Form, number
from maxkernel.web.pages.base import render
from maxkernel.web.studio import Studio
from maxkernel.web.views.run import Head, head

APPROVALS: tuple[Approve, ...] = ("all", "plans", "none")


class RunsPages:
    """Endpoints of the front page."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    def page(self, request: Request) -> Response:
        """The whole page."""
        values = {
            "heads": self._heads(),
            "tasks": sorted(self._studio.tasks),
            "targets": list(TARGETS),
            "approvals": APPROVALS,
            "root": str(self._studio.runs_path),
        }
        return render("runs.html", values)

    def table(self, request: Request) -> Response:
        """The table alone, for refreshing."""
        return render("parts/runs.html", {"heads": self._heads()})

    def start(self, request: Request, form: Form) -> str:
        """Opens a pairing session."""
        approve = as_approve(form.get("approve", "all"))
        candidates = number(form, "candidates") or 24
        run = self._studio.start(form.get("task", ""), form.get("target", ""), candidates, approve)
        return f"/runs/{run}/pair"

    def mark(self) -> list[tuple[str, int]]:
        """Changes whenever any run does."""
        files = self._studio.runs_path.glob("*/run.sqlite*")
        return sorted((f"{path.parent.name}/{path.name}", _stamp(path)) for path in files)

    def _heads(self) -> list[Head]:
        """Runs that can be read, newest first."""
        heads: list[Head] = []
        for summary in list_runs(self._studio.runs_path):
            with suppress(UsageError):
                heads.append(head(self._studio.client(Path(summary.folder).name)))
        return heads


def as_approve(word: str) -> Approve:
    """The approval setting of that name."""
    for approve in APPROVALS:
        if word == approve:
            return approve
    raise UsageError(f"approve: {word!r} is none of {', '.join(APPROVALS)}")


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
