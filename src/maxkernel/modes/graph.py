"""The graph search: many hills at once, one persisted graph, a policy that chooses among them."""

from __future__ import annotations

from functools import partial

import msgspec

from maxkernel.modes.finish import Finish, finish
from maxkernel.search import Context
from maxkernel.search.driver import Driver
from maxkernel.search.memory import Lesson, Memory, observations
from maxkernel.search.settings import LESSONS, SETTINGS, SearchSettings


def run_graph(context: Context, settings: SearchSettings, memory: Memory | None = None) -> Finish:
    """Runs until the budget, the roofline, or the end of ideas. Resumes where it was killed.

    A run that another mode began is taken over: its designs are nodes to go on from. A search
    may go on with another policy or seed, but keeps its width. `memory` is asked once, at the
    start, and told in the end what worked.
    """
    run, info, target = context.run, context.prepared.info, context.prepared.target.name
    stored = run.step(SETTINGS, SearchSettings, lambda: settings)
    settings = msgspec.structs.replace(settings, width=stored.width)
    run.amend(SETTINGS, settings)
    lessons = run.step(
        LESSONS, list[Lesson], lambda: memory.lessons(info, target) if memory is not None else []
    )
    driver = Driver(context, settings, lessons)
    reason = driver.drive()
    if memory is not None:
        board = driver.board
        memory.learn(run.header.run, info, target, observations(board.graph, board.scale))
    done = finish(context, reason, partial(_explain, context, driver))
    if done.best is None and driver.note and not done.explanation:
        done = msgspec.structs.replace(done, explanation=driver.note)
    return done


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
