"""Entry point: runs a command and turns every user-curable error into one clear message."""

from __future__ import annotations

import json
import os
import sys

from maxkernel.errors import EXIT_USAGE, MaxkernelError, UsageError

EXIT_INTERRUPTED = 130

_WANTS_COMMAND = "no command given"
_SEE_HELP = "`maxkernel --help`, or `maxkernel COMMAND --help`"


def main() -> None:
    """Runs the command line; never returns."""
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    as_json = "--json" in arguments
    try:
        status = _run([a for a in arguments if a != "--debug"])
    except MaxkernelError as error:
        if debug:
            raise
        _print_error(error.message, error.advice, error.exit_status, as_json)
        status = error.exit_status
    except KeyboardInterrupt:
        _print_error("interrupted", "`maxkernel resume last` goes on", EXIT_INTERRUPTED, as_json)
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = EXIT_USAGE
    sys.stdout.flush()
    sys.exit(status)


def _run(arguments: list[str]) -> int:
    from typer.exceptions import Abort, Exit, TyperException

    from maxkernel.cli.app import app

    try:
        status = app(arguments, prog_name="maxkernel", standalone_mode=False)
    except Abort:
        raise KeyboardInterrupt from None
    except Exit as stop:
        return stop.exit_code
    except TyperException as error:
        raise UsageError(error.format_message() or _WANTS_COMMAND, _SEE_HELP) from error
    if status == EXIT_INTERRUPTED:  # what typer makes of an interrupt
        raise KeyboardInterrupt
    return status if isinstance(status, int) else 0


def _print_error(message: str, advice: str, status: int, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"error": message, "advice": advice, "exit_status": status}))
        return
    print(f"error: {message}", file=sys.stderr)
    if advice:
        print(f"  try: {advice}", file=sys.stderr)
