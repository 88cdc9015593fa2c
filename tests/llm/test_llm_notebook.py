"""The Python API inside a running event loop, as in a notebook's cell."""

from __future__ import annotations

import json
from pathlib import Path

from fake_llm_server import Request, Say, Step
from llm_helpers import in_a_running_loop, notation
from llm_kernels import GOOD, WRONG_NUMBERS, fenced

import maxkernel

TASK = Path(__file__).parent / "tasks" / "scaled_rows.py"


def engineer(request: Request) -> Step:
    """One idea, and its kernel."""
    if "You plan Pallas kernels" in request.text:
        idea = {"strategy": "one pass", "reason": "reads once", "speedup": 9.0}
        return Say("[]" if "one pass (design" in request.text else json.dumps([idea]))
    return Say(fenced(GOOD))


def test_optimize_and_judge_inside_a_running_loop(bench, server):
    server.respond(engineer)

    def cell():
        report = maxkernel.optimize(
            TASK,
            budget=maxkernel.Budget(candidates=2, patience=1),
            models={role: notation(server, "openai") for role in ("planner", "implementer")},
            model_budget=maxkernel.LlmBudget(max_cost=1.0),
            settings=bench.settings,
        )
        verdict = maxkernel.judge(TASK, WRONG_NUMBERS, settings=bench.settings)
        return report, verdict

    report, verdict = in_a_running_loop(cell)
    assert report.outcome == "faster" and report.models[0].requests >= 2
    assert verdict.evaluation.failure is not None
    assert verdict.evaluation.failure.kind == "mismatch"
