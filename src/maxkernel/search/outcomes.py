"""What became of an intent, in the form in which engineers read history."""

from __future__ import annotations

from maxkernel.search.graph import DesignGraph, Node
from maxkernel.search.options import Scale
from maxkernel.types import Outcome


def outcome(graph: DesignGraph, node: Node, scale: Scale) -> Outcome:
    """What became of one intent, its repairs included."""
    serving = graph.serving(node.root)
    best = min(
        (n for n in serving if n.best is not None), key=lambda n: n.seconds or 0.0, default=None
    )
    last = serving[-1]
    failure = last.failure
    return Outcome(
        plan=node.intent.plan,
        design=(best or last).id if (best or last).written else None,
        seconds=best.seconds if best else None,
        speedup=scale.speedup(best.seconds) if best else None,
        tunables=best.best.tunables if best and best.best else {},
        failure=""
        if best
        else f"{failure.stage}/{failure.kind}: {failure.message}"
        if failure
        else last.dead,
        bottleneck=best.limit if best else "",
    )
