"""Judges again what a report claims, from its bundle alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from maxkernel.errors import UsageError
from maxkernel.judge import Judge, Prepared
from maxkernel.report.model import RunReport, describe_confirmation, quote_baseline, quote_time
from maxkernel.report.seal import digest_of, seal_of
from maxkernel.tasks import task_from_text
from maxkernel.types import Candidate, Evaluation, Failure, Numerics, Time

REPORT_FILE, KERNEL_FILE = "report.json", "kernel.py"


class Finding(msgspec.Struct, frozen=True):
    """One claim of a report, compared with what is found now."""

    claim: str
    agrees: bool | None
    """None where it could not be compared; `words` says why."""
    words: str


@dataclass(frozen=True)
class Bundle:
    """A report with the files beside it."""

    document: dict[str, Any]
    report: RunReport
    kernel: str | None


def read_bundle(path: Path) -> Bundle:
    """The bundle at a folder or report.json. Raises UsageError when it is none."""
    file = path / REPORT_FILE if path.is_dir() else path
    try:
        text = file.read_text(encoding="utf-8")
        document = json.loads(text)
        report = msgspec.json.decode(text, type=RunReport)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"{file} is not a report: {error}", "give a bundle's folder or its report.json"
        ) from error
    beside = file.with_name(KERNEL_FILE)
    try:
        kernel = beside.read_text(encoding="utf-8") if beside.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {beside}: {error}") from error
    if report.source is None:
        raise UsageError(f"{file} does not carry its task: it was written before reports did")
    if report.kernel_digest and kernel is None:
        raise UsageError(f"{beside} is missing: the report speaks of it")
    return Bundle(document, report, kernel)


def check_seals(bundle: Bundle) -> list[Finding]:
    """What can be seen without judging: whether report, kernel and task are the sealed ones."""
    report, task = bundle.report, bundle.report.source
    assert task is not None
    own = task_from_text(task.name, task.format, task.entry, task.files).digest
    found = [
        _same("seal", report.seal, seal_of(bundle.document), "report.json was changed"),
        _same("task", report.task_digest, own, "the task's text was changed"),
    ]
    if bundle.kernel is not None:
        mine = digest_of(bundle.kernel)
        found.append(_same("kernel", report.kernel_digest, mine, "kernel.py was changed"))
    return found


def judge_again(bundle: Bundle, judge: Judge) -> list[Finding]:
    """Judges the bundle's kernel: on the revealed seed for equal numbers, then on fresh ones."""
    report, task = bundle.report, bundle.report.source
    assert task is not None
    fresh = task_from_text(task.name, task.format, task.entry, task.files)
    prepared = msgspec.structs.replace(judge.prepare(fresh), cases=report.cases)
    same = judge.versions == report.versions
    found = [_compiler(report, judge), _baseline(report, prepared, same)]
    if bundle.kernel is None:
        return found
    candidate = Candidate(bundle.kernel)
    evaluation = judge.evaluate(prepared, candidate, again=report.numerics)
    if evaluation.failure is not None:
        failure = evaluation.failure
        words = f"refused {failure.stage}/{failure.kind}: {failure.message}"
        return [*found, Finding("accepted", False, words)]
    return [
        *found,
        Finding("accepted", True, "accepted again"),
        _numbers(report.numerics, evaluation.numerics),
        _mine(report.best, evaluation, same),
        _speedup(report, judge, prepared, evaluation, same),
        _full_size(judge, prepared, report, candidate),
        _confirmed(judge, prepared, candidate),
    ]


def _same(claim: str, told: str, found: str, otherwise: str) -> Finding:
    agrees = told == found
    return Finding(claim, agrees, found if agrees else f"{otherwise}: {found}, not {told or '-'}")


def _compiler(report: RunReport, judge: Judge) -> Finding:
    mine, theirs = (
        ", ".join(f"{k} {v}" for k, v in sorted(versions.items()))
        for versions in (judge.versions, report.versions)
    )
    if mine == theirs:
        return Finding("compiler", True, mine)
    return Finding("compiler", None, f"{mine} here, {theirs} there: times may differ")


def _baseline(report: RunReport, prepared: Prepared, same: bool) -> Finding:
    if report.misfit or prepared.misfit:
        words = f"{quote_baseline(prepared)} found, {quote_baseline(report)} told"
        return Finding("XLA baseline", bool(report.misfit) == bool(prepared.misfit), words)
    return _compare_times("XLA baseline", report.baseline, prepared.baseline, same)


def _mine(told: Time | None, evaluation: Evaluation, same: bool) -> Finding:
    return _compare_times("kernel's time", told, evaluation.time, same)


def _compare_times(claim: str, told: Time | None, found: Time | None, same: bool) -> Finding:
    words = f"{quote_time(found)} found, {quote_time(told)} told"
    return Finding(claim, True if told == found else (False if same else None), words)


def _numbers(told: Numerics | None, found: Numerics | None) -> Finding:
    if told is None or found is None:
        return Finding("errors", False, "the report tells no numerical check")
    if told == found:
        on = ", ".join(["its own inputs", *(t.name for t in told.trials if not t.skipped)])
        return Finding("errors", True, f"the same to the last bit on seed {told.seed}: {on}")
    if [_rounded(o.max_abs) for o in told.outputs] == [_rounded(o.max_abs) for o in found.outputs]:
        return Finding("errors", None, "equal to 3 digits: another processor rounds differently")
    worst = [max((o.max_abs for o in n.outputs), default=0.0) for n in (found, told)]
    return Finding("errors", False, f"max {worst[0]:.3g} found, {worst[1]:.3g} told")


def _rounded(value: float) -> str:
    return f"{value:.2e}"


def _speedup(
    report: RunReport, judge: Judge, prepared: Prepared, evaluation: Evaluation, same: bool
) -> Finding:
    found = judge.verdict(prepared, evaluation).speedup
    words = " told, ".join(f"{s:.4g}x" if s else "none" for s in (report.speedup, found))
    agrees = report.speedup == found
    return Finding("speedup", True if agrees else (False if same else None), f"{words} found")


def _full_size(
    judge: Judge, prepared: Prepared, report: RunReport, candidate: Candidate
) -> Finding:
    """The blocks that the report speaks of, from their seed."""
    told = report.confirmation.spot if report.confirmation else None
    if told is None:
        return Finding("full size", None, "the report tells no check at full size")
    differences = report.numerics.differences if report.numerics else ()
    found = judge.spot_again(prepared, candidate, differences, told.seed)
    if isinstance(found, Failure):
        return Finding("full size", False, f"refused {found.stage}/{found.kind}: {found.message}")
    if found.skipped or told.skipped:
        words = found.skipped or f"told was: {told.skipped}"
        return Finding("full size", None, f"not compared: {words}")
    if found == told:
        words = f"the same to the last bit in {found.blocks} blocks of seed {found.seed}"
        return Finding("full size", True, words)
    if found.passed and (found.blocks, found.elements) == (told.blocks, told.elements):
        return Finding("full size", None, "right in the same blocks, with other rounding errors")
    return Finding("full size", False, f"not what the report tells of seed {told.seed}")


def _confirmed(judge: Judge, prepared: Prepared, candidate: Candidate) -> Finding:
    found = judge.confirm(prepared, candidate)
    if found.failure is not None:
        return Finding("confirmed", False, found.failure.message)
    return Finding("confirmed", True, describe_confirmation(found))
