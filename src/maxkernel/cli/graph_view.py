"""What `maxkernel graph` does: prints the tree, writes the page, leaves words for the search."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.text import Text
from rich.tree import Tree

from maxkernel.api.runs import current_budget
from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.config import load_settings
from maxkernel.errors import EXIT_ACCEPTED, UsageError
from maxkernel.report.graph_html import GraphView, NodeView, render_page, view_graph
from maxkernel.search.graph import PORT
from maxkernel.search.job import Steer
from maxkernel.search.steer import say
from maxkernel.store import RunFile, find_run

STYLES = {
    "accepted": "",
    "planned": "dim",
    "writing": "blue",
    "judging": "blue",
    "refused": "red",
    "cut": "dim strike",
}


def run_graph_command(
    name: str,
    html: str | None,
    pins: list[int],
    cuts: list[int],
    hints: list[str],
    budget: int | None,
    as_json: bool,
) -> int:
    """`maxkernel graph`. Words are heard by the search that runs, or by the next `resume`."""
    folder = find_run(load_settings().runs_path, name)
    words = [Steer("pin", id) for id in pins] + [Steer("cut", id) for id in cuts]
    words += [_hint(text) for text in hints]
    with RunFile.read(folder) as run:
        for word in words:
            say(run, word)
        if budget is not None:
            _give_budget(run, budget)
        view = view_graph(run)
    if html is not None:
        Path(html).write_text(render_page(view), encoding="utf-8")
    if as_json:
        print_json(msgspec.to_builtins(view) | {"exit_status": EXIT_ACCEPTED})
        return EXIT_ACCEPTED
    if html is not None:
        tables.console.print(Text(f"wrote {html}"))
    if words or budget is not None:
        waits = "the search hears it now" if view.state == "running" else "`resume` hears it"
        tables.console.print(Text(f"noted in {view.run}; {waits}"))
    if html is None and not words and budget is None:
        print_tree(view)
    return EXIT_ACCEPTED


def print_tree(view: GraphView) -> None:
    """The graph as a tree; a merge stands below its first parent and names the second."""
    heading = f"{view.task} on TPU {view.target}, run {view.run}, {view.state}"
    tree = Tree(Text(heading))
    branches: dict[int, Tree] = {}
    for node in view.nodes:
        above = next((branches[p] for p in node.parents if p in branches), tree)
        branches[node.id] = above.add(_line(node, view))
    if not view.nodes:
        tree.add(Text("no designs yet", "dim"))
    tables.console.print(tree)


def _line(node: NodeView, view: GraphView) -> Text:
    text = Text(f"{node.id} ", "bold" if node.best_line else "dim")
    what = node.move if node.parents else node.strategy
    if node.move.startswith(PORT):
        what = f"{node.move}: {node.strategy}"
    text.append(what, STYLES[node.state])
    if len(node.parents) > 1:
        text.append(f" (with {', '.join(map(str, node.parents[1:]))})")
    if node.seconds is not None:
        against = f", {node.speedup:.2f}x XLA" if node.speedup is not None else ""
        text.append(f"  {node.time}{against}", "green" if _wins(node) else "")
        if node.limit:
            text.append(f", waits for {node.limit}", "dim")
        if len(node.trials) > 1:
            text.append(f", {len(node.trials)} constants tried", "dim")
    else:
        fate = f"{node.state}: {node.kind}" if node.kind else node.state
        text.append(f"  {fate.splitlines()[0][:100]}", STYLES[node.state])
    if node.id == view.best:
        text.append("  best", "bold green")
    if node.pinned:
        text.append("  pinned", "bold")
    for hint in node.hints:
        text.append(f"  hint: {hint}", "italic")
    return text


def _wins(node: NodeView) -> bool:
    return node.speedup is not None and node.speedup > 1


def _hint(text: str) -> Steer:
    number, colon, rest = text.partition(":")
    if colon and number.strip().isdigit():
        return Steer("hint", int(number), rest.strip())
    return Steer("hint", 0, text.strip())


def _give_budget(run: RunFile, candidates: int) -> None:
    if candidates < 1:
        raise UsageError(f"--budget {candidates}: a search needs at least 1 candidate")
    budget = msgspec.structs.replace(current_budget(run), candidates=candidates)
    run.event("budget", budget=msgspec.to_builtins(budget))
