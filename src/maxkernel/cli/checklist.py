"""Prints what a verdict rests on."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from maxkernel.cli.tables import console, print_failure
from maxkernel.judge import Item
from maxkernel.types import Confirmation

WORDS = {"proven": "proven", "measured": "measured", "unknown": "NOT KNOWN"}


def print_checklist(items: Sequence[Item], confirmation: Confirmation | None) -> None:
    """One line per item; a failed confirmation comes last, as the verdict that it is."""
    if items:
        table = Table(show_header=False, title="what this rests on")
        table.add_column()
        table.add_column(overflow="fold")
        for item in items:
            table.add_row(WORDS[item.kind], Text(item.text))
        console.print(table)
    if confirmation is not None and confirmation.failure is not None:
        console.print("refused on confirmation:")
        print_failure(confirmation.failure)
