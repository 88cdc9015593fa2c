"""Simulated times of the programs that a cache holds, row by row, beside plain estimates."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fidelity.archives import unpack
from benchmarks.fidelity.flops import operations
from benchmarks.fidelity.rows import SUITES, Row

from maxkernel.schedule import (
    KernelOperands,
    Known,
    ScalarOperand,
    ScheduleError,
    expected_error,
    simulate,
)
from maxkernel.targets import TARGETS, Target, peak_rate
from maxkernel.types import ProgramTime


@dataclass(frozen=True)
class Result:
    """One row with its simulated time and the estimates beside it, in seconds.

    A row that was timed without jit is several programs, each with how often it runs.
    """

    row: Row
    programs: tuple[tuple[int, ProgramTime], ...]
    roofline: float
    compiler: float | None
    moved: float
    """What all bytes that the schedules move take at peak bandwidth."""
    jax: str
    """The version that compiled it."""

    @property
    def seconds(self) -> float:
        return sum(times * program.seconds for times, program in self.programs)

    @property
    def ratio(self) -> float:
        return self.seconds / self.row.seconds

    @property
    def stall(self) -> float:
        waited = sum(n * sum(op.stall_cycles for op in p.ops) for n, p in self.programs)
        return waited / sum(n * p.cycles for n, p in self.programs)

    @property
    def error(self) -> float:
        """The expected error; that of several programs is the mean by their time."""
        total = sum(n * p.seconds * expected_error(p) for n, p in self.programs)
        return total / self.seconds

    @property
    def impossible(self) -> str:
        """Why the published time cannot be the sum of these programs; empty where it can."""
        count = sum(n for n, _ in self.programs)
        if count == 1 or self.moved <= self.row.seconds:
            return ""
        return (
            f"it was timed op by op, and its {count} programs move bytes for "
            f"{self.moved * 1e3:.1f} ms at peak bandwidth: not all of them are in the published "
            f"{self.row.seconds * 1e3:.1f} ms"
        )

    @property
    def notes(self) -> str:
        """What had to be assumed, and of how many programs the row is."""
        count = sum(n for n, _ in self.programs)
        several = [f"{count} programs, {len(self.programs)} different"] if count > 1 else []
        return "; ".join([*several, *(note for _, p in self.programs for note in p.assumptions)])


def evaluate(row: Row, archive: Path) -> Result:
    """Simulates one packed dump. Raises ScheduleError."""
    target = TARGETS[row.target]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(archive, folder)
        facts = json.loads((folder / "facts.json").read_text())
        several = "parts" in facts
        parts = facts.get("parts", [facts])
        programs = tuple(
            (part.get("times", 1), timed(folder / f"part{i}" if several else folder, part, target))
            for i, part in enumerate(parts)
        )

    def total(key: str) -> float:
        return sum(part.get("times", 1) * part[key] for part in parts)

    size = total("argument_bytes") + total("output_bytes")
    roofline = max(operations(row) / peak_rate(target, "bfloat16"), size / target.hbm_bandwidth)
    estimate = total("xla_cycles") / target.clock_hz if not total("kernels") else None
    moved = sum(n * sum(op.read_bytes + op.write_bytes for op in p.ops) for n, p in programs)
    seconds = moved / target.hbm_bandwidth
    return Result(row, programs, roofline, estimate or None, seconds, parts[0].get("jax", "?"))


def timed(folder: Path, facts: dict[str, Any], target: Target) -> ProgramTime:
    """Simulates the program whose dump and scalar operands these are. Raises ScheduleError."""
    operands = tuple(
        KernelOperands(
            name,
            {int(index): ScalarOperand(tuple(shape), dtype, tuple(values))
             for index, (shape, dtype, values) in call.items()},
        )
        for name, calls in facts["operands"].items()
        for call in calls
    )  # fmt: skip
    return simulate(folder, target, known=Known(operands))


def load(cache: Path, suites: Iterable[str]) -> tuple[list[Result], dict[str, str]]:
    """Results of every row in the cache, and by its key why another row has none."""
    results: list[Result] = []
    absent: dict[str, str] = {}
    for suite in suites:
        for row in SUITES[suite]():
            archive = cache / f"{row.key}.tar.gz"
            failed = cache / f"{row.key}.failed"
            if not archive.exists():
                told = failed.read_text().splitlines()[1:] if failed.exists() else []
                absent[row.key] = " ".join(told)[:200] or "not in the cache"
                continue
            try:
                result = evaluate(row, archive)
            except ScheduleError as error:
                print(f"{row.target} {row.name}: {error.kind}: {error}", file=sys.stderr)
                absent[row.key] = f"cannot be simulated, {error.kind}"
                continue
            if result.impossible:
                absent[row.key] = result.impossible
            else:
                results.append(result)
    return results, absent
