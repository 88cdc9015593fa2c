"""What the terminal prints: conversation, plans side by side, trees, comparisons."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from maxkernel.cli.pair.words import COMMANDS
from maxkernel.judge import Prepared
from maxkernel.modes.pair import (
    TITLES,
    Bench,
    Card,
    Comparison,
    Line,
    Proposal,
    State,
    describe,
)
from maxkernel.report import quote_time, xla_in_words
from maxkernel.search.graph import DesignGraph, Node
from maxkernel.types import Budget, Design

_STYLES = {
    "said": "bold",
    "note": "italic",
    "decision": "dim",
    "stage": "cyan",
    "result": "",
    "problem": "red",
}
_MARKS = {
    "said": "you",
    "note": "note",
    "decision": "-",
    "stage": ">",
    "result": "=",
    "problem": "!",
}


def line(item: Line) -> RenderableType:
    """One line of the conversation; what came from another client carries its name."""
    person = item.kind in ("said", "note", "decision")
    mark = item.by if person and item.by not in ("terminal", "team") else _MARKS[item.kind]
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=max(4, len(mark)), justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, "dim"), Text(item.text, style=_STYLES[item.kind]))
    return grid


def piece(text: str) -> RenderableType:
    """Lines of an answer that is still being written."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=4, justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text("..", "dim"), Text(text))
    return grid


def problem(message: str, advice: str) -> RenderableType:
    """What went wrong, and what to try."""
    text = Text(f"   ! {message}", style="red")
    return Group(text, Text(f"     try: {advice}")) if advice else text


def proposal(item: Proposal, bench: Bench) -> RenderableType:
    """A stage as it is shown before it runs."""
    title = TITLES[item.ask.stage]
    word = "next" if item.follows else "asked"
    return Panel(
        Text(describe(item.ask, bench)),
        title=f"{word}: {title}",
        title_align="left",
        subtitle="Enter yes - n no - e edit - or any command",
        subtitle_align="left",
        border_style="yellow",
    )


def plans(bench: Bench) -> RenderableType:
    """The plans on the table, side by side."""
    if not bench.cards:
        return Text("no plans on the table yet")
    return Columns([_card(card, bench) for card in bench.cards], equal=True, expand=True)


def _card(card: Card, bench: Bench) -> Panel:
    lines = [Text(card.plan.strategy, style="bold"), Text(card.plan.reason)]
    if card.plan.options:
        options = ", ".join(f"{k}={v}" for k, v in card.plan.options.items())
        lines.append(Text(options, style="dim"))
    if card.plan.expected_seconds is not None:
        lines.append(Text(f"expected {card.plan.expected_seconds * 1e6:.4g} us", style="dim"))
    lines.append(Text(_fate(card), style="green" if card.outcome else ""))
    focused = bench.focus is not None and bench.focus.card == card.number
    return Panel(
        Group(*lines),
        title=f"plan {card.number}: {card.plan.family}"
        + (" (yours)" if card.by == "person" else ""),
        title_align="left",
        border_style="green" if focused else "dim" if card.status == "rejected" else "blue",
    )


def _fate(card: Card) -> str:
    if card.status == "rejected":
        return f"rejected: {card.why}" if card.why else "rejected"
    outcome = card.outcome
    if outcome is None:
        return "not tried"
    if outcome.seconds is None:
        return f"design {outcome.design}: {outcome.failure}"
    against = f", {outcome.speedup:.2f}x XLA" if outcome.speedup else ""
    return f"design {outcome.design}: {outcome.seconds * 1e6:.4g} us{against}"


def source(design: Design) -> RenderableType:
    """A kernel with line numbers."""
    return Group(
        Text(f"design {design.id}, {design.move}: {design.plan.strategy}", style="bold"),
        Syntax(design.source, "python", line_numbers=True, theme="ansi_dark"),
    )


def comparison(found: Comparison) -> RenderableType:
    """Two designs side by side; the better figure in green."""
    table = Table(show_edge=False)
    table.add_column("")
    table.add_column(f"design {found.a}", overflow="fold")
    table.add_column(f"design {found.b}", overflow="fold")
    for row in found.rows:
        a = Text(row.a, style="green" if row.better == "a" else "")
        b = Text(row.b, style="green" if row.better == "b" else "")
        table.add_row(row.name, a, b)
    if not found.diff:
        return Group(table, Text("the sources are equal"))
    return Group(table, Syntax("\n".join(found.diff), "diff", theme="ansi_dark"))


def graph(found: DesignGraph, bench: Bench) -> RenderableType:
    """The designs as a tree; a design with two parents stands under the first."""
    if not len(found):
        return Text("no designs yet")
    tree = Tree(Text("task"))
    branches: dict[int, Tree] = {}
    for node in found:
        parents = [branches[p] for p in node.intent.parents if p in branches]
        branch = parents[0] if parents else tree
        branches[node.id] = branch.add(_node(node, found, bench))
    return tree


def _node(node: Node, found: DesignGraph, bench: Bench) -> Text:
    time = f" {node.seconds * 1e6:.4g} us" if node.seconds is not None else ""
    kind = f" {node.kind}" if node.kind else ""
    marks = [
        "best" if found.best is node else "",
        "here" if bench.focus is not None and bench.focus.design == node.id else "",
        "accepted by you" if bench.accepted and bench.accepted.design == node.id else "",
        "rejected by you" if node.id in bench.rejected else "",
        "pinned" if node.pinned else "",
    ]
    mark = ", ".join(m for m in marks if m)
    text = Text(f"{node.id} {node.intent.move}: {node.intent.plan.strategy}")
    text.append(f" [{node.state}{kind}{time}]", "green" if node.seconds is not None else "red")
    return text.append(f"  <- {mark}" if mark else "", "bold")


def budget(state: State, limits: Budget, spent: int, cost: float) -> RenderableType:
    """What is spent of what is allowed."""
    seconds = f" of {limits.seconds:.0f}" if limits.seconds is not None else ""
    money = f"; models {cost:.4f} USD" if cost else ""
    return Text(
        f"{spent} of {limits.candidates} evaluations; the team worked {state.worked:.0f}{seconds} "
        f"seconds{money}"
    )


def task(prepared: Prepared, run: str) -> RenderableType:
    """What there is to beat."""
    inputs = ", ".join(map(str, prepared.info.inputs))
    outputs = ", ".join(map(str, prepared.info.outputs))
    return Group(
        Text(f"{prepared.task.name} on TPU {prepared.target.name}", style="bold"),
        Text(f"inputs {inputs}; outputs {outputs}"),
        Text(
            f"{xla_in_words(prepared)}; roofline "
            f"{quote_time(prepared.bound.time)} ({prepared.bound.limit})"
        ),
        Text(f"run {run}", style="dim"),
    )


def commands(console: Console) -> None:
    """The list of commands."""
    table = Table(show_header=False, show_edge=False, box=None)
    for command in COMMANDS:
        table.add_row(f"/{command.name} {command.arguments}".strip(), command.help)
    console.print(table)
    console.print(
        Text("Anything else goes to the team as a question. Enter approves the stage shown.")
    )
