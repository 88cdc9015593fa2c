"""`maxkernel lint`: can a task be passed without doing its work?"""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from maxkernel.api import load_task, open_session
from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.cli.flags import Flags
from maxkernel.errors import EXIT_ACCEPTED, EXIT_REFUSED
from maxkernel.judge import advise
from maxkernel.report import quote


def run_lint(task: str, target: str, flags: Flags) -> int:
    """Prints every shortcut tried; exit status 1 when one of them passes."""
    loaded = load_task(task)
    with (
        open_session(target, unsafe_no_sandbox=flags.unsafe) as session,
        tables.status("linting", quiet=flags.as_json),
    ):
        result = session.judge.prepare(loaded).lint
    status = EXIT_REFUSED if result.holes else EXIT_ACCEPTED
    if flags.as_json:
        advice = {hole.name: advise(hole) for hole in result.holes}
        print_json({"shortcuts": result.shortcuts, "holes": advice, "exit_status": status})
        return status
    table = Table(title=f"{loaded.name}: programs that do not do the work")
    for head in ("shortcut", "verdict", "error / allowance", "largest error"):
        table.add_column(head)
    for shortcut in result.shortcuts:
        verdict = "PASSES: a hole" if shortcut.passes else "refused"
        table.add_row(Text(shortcut.name), verdict, quote(shortcut.excess), quote(shortcut.max_abs))
    tables.console.print(table)
    for hole in result.holes:
        tables.console.print(Text(f"{hole.name}: {advise(hole)}"))
    if not result.holes:
        tables.console.print("no shortcut passes")
    return status
