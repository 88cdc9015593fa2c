"""What stands around a table: its title, its sums, how it was made, and every failure in words."""

from __future__ import annotations

import time

from maxkernel.bench.result import BenchResult
from maxkernel.bench.settings import code_digest
from maxkernel.bench.summary import summarise
from maxkernel.types import WON

_NAMES = {"jaxbench": "JaxBench", "models": "Model workloads"}


def title_of(result: BenchResult) -> str:
    """Suite, edition and target."""
    given = result.settings
    name = _NAMES.get(given.suite, given.suite)
    return f"{name}, {given.edition} edition, on TPU {given.target}"


def summary_lines(result: BenchResult) -> list[str]:
    """What the table adds up to, a sentence each."""
    s = summarise(result.rows)
    lines = [
        f"{s.tasks} tasks: correct {s.correct}, faster than XLA {s.faster} (fast@1 "
        f"{100 * s.faster / s.tasks if s.tasks else 0:.0f} %), geometric mean of max(1, speedup) "
        f"{s.geometric_mean:.3f}, median {s.median:.3f}; errors and timeouts {s.unfinished}"
    ]
    if s.fits:
        lines.append(
            f"XLA's program does not fit in the memory of a {result.settings.target} for {s.fits} "
            "more, and a kernel does: no speedup can be told, 1 in the means"
        )
    if s.experts or s.experts_refused:
        refused = f"; {s.experts_refused} expert kernels were refused" if s.experts_refused else ""
        lines.append(
            f"wins against experts: {s.beats_expert} of {s.experts}, equal within the clock's "
            f"error {s.equals_expert}{refused}"
        )
    if s.passable:
        weak = ", ".join(row.task.partition("_")[0] for row in result.rows if row.passable)
        lines.append(
            f"{s.passable} of these tasks can be passed without doing the work by the "
            f"{result.settings.edition} edition's own check: {weak}; geometric mean without them "
            f"{s.sound_geometric_mean:.3f}"
        )
    if result.tasks > s.tasks:
        lines.append(f"stopped: {s.tasks} of {result.tasks} tasks have a row")
    return lines


def provenance_lines(result: BenchResult) -> list[str]:
    """How the table was made: limits, versions, date, what its times are."""
    given = result.settings
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    made = [row.made for row in result.rows if row.made] or [result.created]
    days = sorted({time.strftime("%Y-%m-%d", time.gmtime(at)) for at in made})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return [
        f"{when}; {versions}; sandbox {result.sandbox}; maxkernel {_codes(result)}",
        f"team {given.team}, mode {given.mode}{_search(result)}; at most {given.candidates} "
        f"evaluations and {given.seconds:.0f} s of search a task, {given.task_seconds:.0f} s a "
        f"task in all{_models(result)}",
        "simulated times are the compiled schedule, executed; each says its expected error; "
        "published times were measured on a device by others and are never divided by them",
    ]


def failure_lines(result: BenchResult) -> list[tuple[str, str]]:
    """Every task without a faster kernel, and why, on one line each."""
    found: list[tuple[str, str]] = []
    for row in result.rows:
        if row.outcome in WON:
            continue
        why = row.message
        if row.outcome == "xla" and row.speedup:
            why = f"the best accepted kernel is at {row.speedup:.2f}x of XLA's program"
            why += f" ({row.plan})" if row.plan else ""
        if row.doubt:
            why = f"no claim of speed: {row.doubt}; {why}"
        found.append((row.task, " ".join(why.split()) or row.outcome))
    return found


def _codes(result: BenchResult) -> str:
    codes = list(dict.fromkeys(row.code for row in result.rows if row.code))
    if not codes:
        return "sources unknown"
    other = sum(row.code != code_digest() for row in result.rows)
    text = "sources " + ", ".join(codes)
    return f"{text} ({other} rows are of other sources than today's)" if other else text


def _search(result: BenchResult) -> str:
    given = result.settings
    return f" (policy {given.policy}, seed {given.seed})" if given.mode == "graph" else ""


def _models(result: BenchResult) -> str:
    given = result.settings
    parts = (
        f"${given.max_cost:g}" if given.max_cost is not None else "",
        f"{given.max_tokens} tokens" if given.max_tokens is not None else "",
        f"{given.max_requests} requests" if given.max_requests is not None else "",
    )
    said = [part for part in parts if part]
    return f", {', '.join(said)} of models a task" if said else ""
