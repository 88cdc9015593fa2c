"""`maxkernel verify`: judges a report's kernel again and says what agrees."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from maxkernel.api import open_session
from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.cli.flags import Flags
from maxkernel.errors import EXIT_ACCEPTED, EXIT_REFUSED
from maxkernel.report.verify import Finding, check_seals, judge_again, read_bundle

WORDS = {True: "agrees", False: "DISAGREES", None: "not compared"}


def run_verify(path: str, flags: Flags) -> int:
    """Exit status 0 when nothing disagrees, 1 when something does, 2 when it is no report."""
    bundle = read_bundle(Path(path))
    findings = check_seals(bundle)
    if all(finding.agrees for finding in findings):
        with (
            open_session(
                bundle.report.target, unsafe_no_sandbox=flags.unsafe, use_cache=False
            ) as session,
            tables.status("judging again", quiet=flags.as_json),
        ):
            findings += judge_again(bundle, session.judge)
    agrees = all(finding.agrees is not False for finding in findings)
    status = EXIT_ACCEPTED if agrees else EXIT_REFUSED
    if flags.as_json:
        print_json({"findings": findings, "agrees": agrees, "exit_status": status})
    else:
        _print(bundle.report.task, findings, agrees)
    return status


def _print(task: str, findings: list[Finding], agrees: bool) -> None:
    table = Table(show_header=False, title=f"the report on {task}")
    for _ in range(3):
        table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(finding.claim, WORDS[finding.agrees], Text(finding.words))
    tables.console.print(table)
    tables.console.print("verified" if agrees else "NOT verified")
