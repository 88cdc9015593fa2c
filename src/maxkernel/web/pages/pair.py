"""The pairing page: conversation, plans, editor, stages. Every decision is the session's."""

from __future__ import annotations

from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response

from maxkernel.errors import UsageError
from maxkernel.modes.pair import (
    NEW_KERNEL,
    NEW_PLAN,
    TITLES,
    Ask,
    PairSession,
    Stage,
    describe,
    evaluation_of,
    find_design,
    plan_from_text,
    plan_to_text,
)
from maxkernel.web.forms import Form, number
from maxkernel.web.pages.base import render
from maxkernel.web.pages.run import RunPages
from maxkernel.web.pages.runs import APPROVALS, as_approve
from maxkernel.web.studio import Studio
from maxkernel.web.views.design import source_lines
from maxkernel.web.views.marks import marks

TALK_LINES = 200
PARTS = ("talk", "draft", "proposal", "plans", "kernel", "bar", "editor")


class PairPages:
    """Endpoints of a pairing session."""

    def __init__(self, studio: Studio, runs: RunPages) -> None:
        self._studio = studio
        self._runs = runs

    def page(self, request: Request) -> Response:
        """The whole page."""
        client = self._runs.client(request)
        self._studio.attend(client.name)
        values = self._values(client) | _editor(client, request.query_params.get("edit", ""))
        return render("pair.html", values)

    def part(self, request: Request) -> Response:
        """One part of the page, for refreshing."""
        name = request.path_params["part"]
        if name not in PARTS:
            return Response(status_code=404)
        client = self._runs.client(request)
        if name == "draft":
            return render("parts/draft.html", {"proposal": client.state.proposal})
        values = self._values(client)
        if name == "editor":
            values |= _editor(client, request.query_params.get("edit", ""))
        return render(f"parts/{name}.html", values)

    def ask(self, request: Request, form: Form) -> None:
        """Puts a stage up."""
        stage = _stage(form.get("stage", ""))
        ask = Ask(
            stage=stage,
            design=number(form, "design"),
            card=number(form, "card"),
            text=form.get("text", ""),
            count=number(form, "count") or (1 if stage == "auto" else 0),
            first=number(form, "first") or 0,
            last=number(form, "last") or number(form, "first") or 0,
        )
        client = self._runs.client(request)
        self._studio.attend(client.name)
        client.ask(ask, form.get("key", ""))

    def say(self, request: Request, form: Form) -> None:
        """A question to the team, or a note."""
        client = self._runs.client(request)
        text, key = form.get("text", ""), form.get("key", "")
        if form.get("as") == "note":
            client.note(text, key=key)
        else:
            self._studio.attend(client.name)
            client.ask(Ask(stage="answer", text=text), key)

    def answer(self, request: Request, form: Form) -> None:
        """A word on the stage that is shown."""
        client = self._runs.client(request)
        self._studio.attend(client.name)
        approve = form.get("word") == "yes"
        client.answer(approve, form.get("why", ""), proposal=number(form, "proposal"))

    def decide(self, request: Request, form: Form) -> None:
        """Undo, redo, reject, note, approve: decisions that run nothing."""
        client = self._runs.client(request)
        match form.get("do"):
            case "undo":
                client.undo(number(form, "of"))
            case "redo":
                client.redo(number(form, "of"))
            case "reject":
                client.reject(
                    form.get("why", ""), card=number(form, "card"), design=number(form, "design")
                )
            case "note":
                client.note(form.get("text", ""), number(form, "design"), form.get("key", ""))
            case "approve":
                client.set_approve(as_approve(form.get("approve", "")))
            case "stop":
                client.stop()
            case other:
                raise UsageError(f"{other!r} is no decision")

    def plan(self, request: Request, form: Form) -> None:
        """An edited plan, or a new one."""
        client = self._runs.client(request)
        text = form.get("plan", "")
        client.edit_plan(plan_from_text(text), number(form, "card"), form.get("key", ""))

    def kernel(self, request: Request, form: Form) -> None:
        """An edited kernel."""
        client = self._runs.client(request)
        self._studio.attend(client.name)
        client.edit_kernel(form.get("source", ""), number(form, "design"), form.get("key", ""))

    def _values(self, client: PairSession) -> dict[str, Any]:
        state = client.state
        focus, proposal = state.bench.focus, state.proposal
        design = find_design(client.run, focus.design) if focus else None
        found = evaluation_of(client.run, focus) if focus else None
        failure = found.failure if found else None
        margin = marks(design.source, found, client.prepared) if design else {}
        words = describe(proposal.ask, state.bench) if proposal else ""
        return self._runs.values(client, "pair") | {
            "state": state,
            "prepared": client.prepared,
            "lines": state.lines[-TALK_LINES:],
            "proposal": proposal,
            "proposal_words": words,
            "titles": TITLES,
            "focus": focus,
            "design": design,
            "evaluation": found,
            "failure": failure,
            "source": source_lines(design.source, margin, failure) if design else [],
            "approvals": APPROVALS,
            "designs": [d.id for d in client.run.designs()],
        }


def _editor(client: PairSession, edit: str) -> dict[str, Any]:
    """What the editor shows: `kernel`, `new` (a plan), the number of a plan, or nothing."""
    bench = client.state.bench
    card = bench.card(int(edit)) if edit.isdigit() else None
    known = edit in ("kernel", "new") or card is not None
    return {
        "edit": edit if known else "",
        "plan_text": plan_to_text(card.plan if card else NEW_PLAN),
        "new_kernel": NEW_KERNEL,
    }


def _stage(word: str) -> Stage:
    for stage in get_args(Stage):
        if word == stage and word != "edit":
            return stage
    raise UsageError(f"{word!r} is no stage")
