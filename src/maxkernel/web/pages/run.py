"""The page of a run: figures, curve, graph, feed, and words to the search."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from maxkernel.errors import UsageError
from maxkernel.modes.pair import PairSession
from maxkernel.search.job import Steer
from maxkernel.search.steer import say
from maxkernel.web.forms import Form, number
from maxkernel.web.pages.base import render
from maxkernel.web.studio import Studio
from maxkernel.web.views.run import curve, feed, graph, head

FEED_LINES = 60
MAX_HINT = 4000


class RunPages:
    """Endpoints of one run."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    def page(self, request: Request) -> Response:
        """The whole page."""
        client = self.client(request)
        values = self.values(client, "run") | {
            "graph": graph(client),
            "feed": feed(client, FEED_LINES),
        }
        values["curve"] = curve(client.run, client.prepared)
        return render("run.html", values)

    def part(self, request: Request) -> Response:
        """One part of the page, for refreshing."""
        client = self.client(request)
        name = request.path_params["part"]
        if name == "head":
            return render("parts/head.html", self.values(client))
        if name == "controls":
            return render("parts/controls.html", self.values(client))
        if name == "feed":
            return render(
                "parts/feed.html", self.values(client) | {"feed": feed(client, FEED_LINES)}
            )
        return Response(status_code=404)

    def data(self, request: Request) -> Response:
        """What the pictures are drawn from."""
        client = self.client(request)
        if request.path_params["name"] == "curve":
            return JSONResponse(curve(client.run, client.prepared))
        if request.path_params["name"] == "graph":
            return JSONResponse(graph(client))
        return Response(status_code=404)

    def stop(self, request: Request, form: Form) -> None:
        """Ends what runs."""
        self._studio.stop(request.path_params["run"])

    def resume(self, request: Request, form: Form) -> None:
        """Goes on with a search."""
        self._studio.resume(request.path_params["run"])

    def budget(self, request: Request, form: Form) -> None:
        """New limits."""
        self.client(request).set_budget(number(form, "candidates"), _seconds(form))

    def steer(self, request: Request, form: Form) -> None:
        """A pin, a cut or a hint for the search."""
        client = self.client(request)
        action, node = form.get("action", ""), number(form, "node") or 0
        text = form.get("text", "").strip()
        if len(text) > MAX_HINT:
            raise UsageError(f"the hint has {len(text)} characters; the limit is {MAX_HINT}")
        if action == "hint":
            client.note(text, node or None, form.get("key", ""))
        elif action == "pin":
            say(client.run, Steer("pin", node))
        elif action == "cut":
            say(client.run, Steer("cut", node))
        else:
            raise UsageError(f"{action!r} is none of pin, cut, hint")

    def client(self, request: Request) -> PairSession:
        """This server's client of the run in the address."""
        return self._studio.client(request.path_params["run"])

    def values(self, client: PairSession, tab: str = "") -> dict[str, Any]:
        """What every page of a run needs."""
        run = client.name
        return {"head": head(client), "problem": self._studio.problem(run), "tab": tab}


def _seconds(form: Form) -> float | None:
    found = number(form, "seconds")
    return float(found) if found is not None else None
