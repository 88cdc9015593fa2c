"""The graph search: many hills at once, one persisted graph, a policy that chooses among them."""

from __future__ import annotations

from functools import partial

from maxkernel.modes.finish import Finish, finish
from maxkernel.search import Context
from maxkernel.search.driver import Driver
from maxkernel.search.settings import SETTINGS, SearchSettings


def run_graph(context: Context, settings: SearchSettings) -> Finish:
    """Runs until the budget, the roofline, or the end of ideas. Resumes where it was killed.

    A run that another mode began is taken over: its designs are nodes to go on from.
    """
    settings = context.run.step(SETTINGS, SearchSettings, lambda: settings)
    driver = Driver(context, settings)
    reason = driver.drive()
    return finish(context, reason, partial(_explain, context, driver))


def _explain(context: Context, driver: Driver, design: int) -> str:
    """The plan's reason, the way to it, and the profiler's word on what limits it now."""
    graph = driver.board.graph
    node = graph[design]
    line = [n for n in reversed(graph.lineage(design)) if n.intent.parents]
    way = " -> ".join(n.intent.move for n in line)
    evaluation = context.run.evaluation(node.best.candidate) if node.best is not None else None
    parts = [node.intent.plan.reason, f"Way: {way}" if way else ""]
    if evaluation is not None and evaluation.program is not None:
        prepared = context.prepared
        parts.append(
            context.team.profiler.diagnose(prepared.info, evaluation.program, prepared.target).text
        )
    return "\n\n".join(part for part in parts if part)
