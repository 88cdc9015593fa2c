"""`maxkernel bench compare`."""

from __future__ import annotations

from rich.table import Table

from maxkernel.bench import compare, load_result
from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.report import quote_time


def run_compare(before: str, after: str, as_json: bool) -> int:
    """Prints what changed between two tables."""
    changes = compare(load_result(before), load_result(after))
    if as_json:
        print_json({"changes": changes, "exit_status": 0})
        return 0
    table = Table()
    for head in ("task", "before", "after", "ratio", "change"):
        table.add_column(head)
    for change in changes:
        ratio = f"{change.ratio:.3f}x" if change.ratio else "-"
        best = (quote_time(change.before.best), quote_time(change.after.best))
        table.add_row(change.task, *best, ratio, change.word)
    tables.console.print(table)
    return 0
