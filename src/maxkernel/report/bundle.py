"""Writes the bundle: kernel.py, test_kernel.py, report.md and report.json."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from maxkernel.judge import Prepared
from maxkernel.parsing import parse
from maxkernel.report.bake import bake
from maxkernel.report.markdown import render_markdown
from maxkernel.report.model import RunReport
from maxkernel.report.seal import FIELD, digest_of, seal_of
from maxkernel.report.testfile import render_test
from maxkernel.types import Candidate, Task


def write_bundle(
    folder: Path, report: RunReport, task: Task, prepared: Prepared, winner: Candidate | None
) -> list[Path]:
    """Writes the bundle and returns its files; without a winner only the two reports."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {"report.md": render_markdown(report)}
    if winner is not None:
        source = bake(winner.source, winner.tunables)
        parse(source)
        contents["kernel.py"] = source
        contents["test_kernel.py"] = render_test(task, prepared)
        report = msgspec.structs.replace(report, kernel_digest=digest_of(source))
    contents["report.json"] = _sealed(report)
    written: list[Path] = []
    for name, text in contents.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _sealed(report: RunReport) -> str:
    document = json.loads(msgspec.json.encode(report))
    document[FIELD] = seal_of(document)
    return json.dumps(document, indent=2) + "\n"
