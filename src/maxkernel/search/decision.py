"""From a chosen option to a job."""

from __future__ import annotations

from maxkernel.search.board import Board
from maxkernel.search.graph import Node
from maxkernel.search.job import Job
from maxkernel.search.options import Option

RANK_LIMIT = 48
"""Assignments of a design's constants that are traced to rank them, at most. However little of the
budget is left: a trace takes some hundredths of a second, and a design is ranked only once, also
by a search that gets more budget later."""

MAX_PARTNERS = 3
"""Designs that a design is offered for merging."""


def job_of(board: Board, number: int, option: Option | None, *, mixes: bool) -> Job:
    """The job that does what `option` says; an idle one for None."""
    if option is None:
        return Job(number, "idle")
    match option.kind:
        case "repair":
            return Job(number, "repair", board.next_id, broken=option.node)
        case "tune":
            return Job(number, "tune", option.node, option.tunables)
        case "rank":
            return Job(number, "rank", option.node, limit=RANK_LIMIT)
        case "moves":
            return Job(number, "moves", option.node, partners=_partners(board, option, mixes))
        case kind:
            return Job(number, kind, option.node)


def _partners(board: Board, option: Option, mixes: bool) -> tuple[int, ...]:
    """The best other designs of the family that are neither ancestors nor descendants."""
    graph, node = board.graph, board.graph[option.node]
    kin = {n.id for n in (*graph.lineage(node.id), *graph.descendants(node.id))}

    def suits(other: Node) -> bool:
        return (
            not other.cut
            and other.id not in kin
            and other.intent.plan.family == node.intent.plan.family
            and (mixes or graph.chain(other.id) == option.chain)
        )

    others = [id for _, id in graph.leaders if suits(graph[id])]
    return tuple(others[:MAX_PARTNERS])
