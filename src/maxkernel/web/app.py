"""The studio as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from maxkernel.errors import MaxkernelError
from maxkernel.web.export import export_text
from maxkernel.web.forms import taking
from maxkernel.web.live import LIST_POLL_SECONDS, POLL_SECONDS, run_mark, stream
from maxkernel.web.pages.base import render
from maxkernel.web.pages.design import DesignPages
from maxkernel.web.pages.pair import PairPages
from maxkernel.web.pages.run import RunPages
from maxkernel.web.pages.runs import RunsPages
from maxkernel.web.security import Guard, Rules
from maxkernel.web.studio import Studio

STATIC = Path(__file__).parent / "static"


def build_app(studio: Studio, rules: Rules) -> Starlette:
    """All pages of the studio behind its guard; the studio is closed with the application."""
    runs, run = RunsPages(studio), RunPages(studio)
    design, pair = DesignPages(run), PairPages(studio, run)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        studio.close()

    def run_events(request: Request) -> Response:
        client = run.client(request)
        return stream(request, studio, run_mark(client), POLL_SECONDS)

    def list_events(request: Request) -> Response:
        return stream(request, studio, runs.mark, LIST_POLL_SECONDS)

    def export(request: Request) -> Response:
        client = run.client(request)
        name = f"{client.name}.html"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return HTMLResponse(export_text(client), headers=headers)

    one = "/runs/{run}"
    routes = [
        Route("/", runs.page),
        Route("/parts/runs", runs.table),
        Route("/events", list_events),
        Route("/pair", taking(runs.start), methods=["POST"]),
        Route(one, run.page),
        Route(f"{one}/parts/{{part}}", run.part),
        Route(f"{one}/data/{{name}}", run.data),
        Route(f"{one}/events", run_events),
        Route(f"{one}/export", export),
        Route(f"{one}/stop", taking(run.stop), methods=["POST"]),
        Route(f"{one}/resume", taking(run.resume), methods=["POST"]),
        Route(f"{one}/budget", taking(run.budget), methods=["POST"]),
        Route(f"{one}/steer", taking(run.steer), methods=["POST"]),
        Route(f"{one}/designs/{{design:int}}", design.page),
        Route(f"{one}/designs/{{design:int}}/branch", taking(design.branch), methods=["POST"]),
        Route(f"{one}/compare", design.compare),
        Route(f"{one}/pair", pair.page),
        Route(f"{one}/pair/parts/{{part}}", pair.part),
        Route(f"{one}/pair/ask", taking(pair.ask), methods=["POST"]),
        Route(f"{one}/pair/say", taking(pair.say), methods=["POST"]),
        Route(f"{one}/pair/answer", taking(pair.answer), methods=["POST"]),
        Route(f"{one}/pair/decide", taking(pair.decide), methods=["POST"]),
        Route(f"{one}/pair/plan", taking(pair.plan), methods=["POST"]),
        Route(f"{one}/pair/kernel", taking(pair.kernel), methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, rules)],
        exception_handlers={MaxkernelError: _told, 404: _missing},
        lifespan=lifespan,
    )


def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, MaxkernelError)
    return render("error.html", {"message": error.message, "advice": error.advice}, 404)


def _missing(request: Request, error: Exception) -> Response:
    return render("error.html", {"message": "there is no such page", "advice": ""}, 404)
