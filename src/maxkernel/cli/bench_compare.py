"""`maxkernel bench compare`."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from maxkernel.bench import compare_tables, load_result
from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.report import quote_time


def run_compare(before: str, after: str, as_json: bool, everything: bool) -> int:
    """Prints what changed between two tables; with `everything`, also what did not."""
    found = compare_tables(load_result(before), load_result(after))
    if as_json:
        print_json({"comparison": found, "exit_status": 0})
        return 0
    table = Table()
    for head in ("task", "before", "after", "ratio", "change"):
        table.add_column(head, overflow="fold")
    for change in found.changes:
        if change.word == "same" and not everything:
            continue
        ratio = f"{change.ratio:.3f}x" if change.ratio else "-"
        best = (quote_time(change.before.best), quote_time(change.after.best))
        word = change.word
        if change.baseline_ratio is not None and abs(change.baseline_ratio - 1) > 1e-3:
            word += f"; XLA {change.baseline_ratio:.3f}x"
        table.add_row(Text(change.task), *best, ratio, word)
    if table.row_count:
        tables.console.print(table)
    counts = ", ".join(f"{word} {count}" for word, count in found.counts.items())
    mean = f"; geometric mean {found.geometric_mean:.3f}x" if found.geometric_mean else ""
    say(f"{len(found.changes)} tasks in both: {counts or 'none'}{mean}")
    for name, only in (("first", found.only_before), ("second", found.only_after)):
        if only:
            say(f"only in the {name}: {', '.join(only)}")
    for difference in found.differences:
        say(f"differs in {difference}")
    return 0


def say(text: str) -> None:
    """One line of plain text."""
    tables.console.print(Text(text))
