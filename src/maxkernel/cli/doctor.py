"""`maxkernel doctor`: does this machine have what a run needs?"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass

from maxkernel.api import open_session
from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.config import config_file, load_settings
from maxkernel.errors import EXIT_ACCEPTED, EXIT_ENVIRONMENT, MaxkernelError


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    name: str
    ok: bool
    text: str
    advice: str = ""


def run_doctor(as_json: bool) -> int:
    """Prints what was found; exit status 3 when a run could not work."""
    findings = [
        Finding("python", sys.version_info >= (3, 11), platform.python_version()),
        _settings(),
        _workers(),
    ]
    status = EXIT_ACCEPTED if all(f.ok for f in findings) else EXIT_ENVIRONMENT
    if as_json:
        print_json({"findings": [vars(f) for f in findings], "exit_status": status})
        return status
    for finding in findings:
        tables.console.print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name}: {finding.text}")
        if finding.advice:
            tables.console.print(f"      try: {finding.advice}")
    return status


def _settings() -> Finding:
    try:
        settings = load_settings()
    except MaxkernelError as error:
        return Finding("settings", False, error.message, error.advice)
    text = (
        f"config file {config_file()}, cache {settings.cache_path}, runs {settings.runs_path}, "
        f"workers {settings.workers}"
    )
    return Finding("settings", True, text)


def _workers() -> Finding:
    try:
        with open_session("v6e", use_cache=False) as session:
            versions = session.judge.versions
            level = session.executor.sandbox
    except MaxkernelError as error:
        return Finding("workers", False, error.message, error.advice)
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    return Finding("workers", True, f"{text}; sandbox {level}")
