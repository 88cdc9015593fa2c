"""The page of one design, and two designs side by side."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from maxkernel.errors import UsageError
from maxkernel.modes.pair import compare
from maxkernel.web.forms import Form, number
from maxkernel.web.pages.base import render
from maxkernel.web.pages.run import RunPages
from maxkernel.web.views.design import design_view, diff_lines


class DesignPages:
    """Endpoints of designs."""

    def __init__(self, runs: RunPages) -> None:
        self._runs = runs

    def page(self, request: Request) -> Response:
        """One design."""
        client = self._runs.client(request)
        view = design_view(client, int(request.path_params["design"]))
        others = [d.id for d in client.run.designs() if d.id != view.design.id]
        values = {"view": view, "others": others, "prepared": client.prepared}
        return render("design.html", self._runs.values(client) | values)

    def compare(self, request: Request) -> Response:
        """Two designs side by side."""
        client = self._runs.client(request)
        designs = [d.id for d in client.run.designs()]
        a, b = (_design(request, name) for name in ("a", "b"))
        if a is None or b is None:
            raise UsageError("compare which designs?", "?a=1&b=2")
        found = compare(client.run, client.prepared, a, b)
        views = [design_view(client, number) for number in (a, b)]
        values = {
            "found": found,
            "diff": diff_lines(found.diff),
            "designs": designs,
            "timelines": [view.timeline for view in views],
        }
        return render("compare.html", self._runs.values(client) | values)

    def branch(self, request: Request, form: Form) -> str:
        """Turns the pairing session to a design and goes there."""
        client = self._runs.client(request)
        client.move(int(request.path_params["design"]))
        return f"/runs/{request.path_params['run']}/pair"


def _design(request: Request, name: str) -> int | None:
    return number(dict(request.query_params), name)
