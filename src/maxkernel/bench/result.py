"""The result of a benchmark as data: one row per task, and what the rows add up to."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from pathlib import Path

import msgspec

from maxkernel.errors import UsageError
from maxkernel.types import Time, Tunable

FILE_NAME = "bench.json"
FORMAT = 1


class Settings(msgspec.Struct, frozen=True):
    """What makes two results comparable row by row."""

    suite: str
    edition: str
    target: str
    team: str
    mode: str
    candidates: int
    """Evaluations per task at most."""
    seconds: float
    """Seconds per task at most."""
    kernels: str = ""
    """Digest of the kernels that are judged instead of searching; empty otherwise."""

    @property
    def digest(self) -> str:
        """Names the folder in which a run of these settings is kept."""
        text = json.dumps(msgspec.to_builtins(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]


class Row(msgspec.Struct, frozen=True):
    """One task."""

    task: str
    digest: str
    """Of the task's text: a row is reused only for the same text."""
    outcome: str
    """`faster`, `xla`, `none`, `accepted` (a given kernel), `refused`, `weak` or `error`."""
    baseline: Time | None = None
    best: Time | None = None
    speedup: float | None = None
    roofline_fraction: float | None = None
    baseline_fraction: float | None = None
    published_xla_ms: float | None = None
    published_pallas_ms: float | None = None
    expert: Time | None = None
    """Our own implementation of the published algorithm, judged like any candidate."""
    plan: str = ""
    tunables: dict[str, Tunable] = {}
    evaluations: int = 0
    seconds: float = 0.0
    """On this machine, tracing and the baseline included."""
    message: str = ""
    """Why there is no faster kernel, in words."""
    run: str = ""


class BenchResult(msgspec.Struct, frozen=True):
    """A table: what was run, with what, and every row so far."""

    format: int
    settings: Settings
    versions: dict[str, str]
    created: float
    rows: tuple[Row, ...]
    sandbox: str = ""


class Summary(msgspec.Struct, frozen=True):
    """What a table adds up to. Means are over max(1, speedup): XLA's program is the fallback."""

    tasks: int
    correct: int
    """A kernel was accepted, or XLA's program stands after accepted ones."""
    faster: int
    """fast@1: faster than XLA beyond the clock's expected error."""
    geometric_mean: float
    median: float
    beats_expert: int
    experts: int


def summarise(rows: tuple[Row, ...]) -> Summary:
    """The summary of some rows."""
    gains = [max(1.0, row.speedup or 1.0) if row.outcome == "faster" else 1.0 for row in rows]
    with_expert = [row for row in rows if row.expert is not None]
    return Summary(
        tasks=len(rows),
        correct=sum(row.outcome in ("faster", "xla", "accepted") for row in rows),
        faster=sum(row.outcome == "faster" for row in rows),
        geometric_mean=math.exp(statistics.fmean(map(math.log, gains))) if gains else 1.0,
        median=statistics.median(gains) if gains else 1.0,
        beats_expert=sum(map(_beats_expert, with_expert)),
        experts=len(with_expert),
    )


def _beats_expert(row: Row) -> bool:
    if row.best is None or row.expert is None:
        return False
    return row.best.seconds < row.expert.seconds


def load_result(path: str | Path) -> BenchResult:
    """A stored result, by its file or folder. Raises UsageError when there is none."""
    path = Path(path)
    file = path / FILE_NAME if path.is_dir() else path
    try:
        return msgspec.json.decode(file.read_bytes(), type=BenchResult)
    except FileNotFoundError:
        raise UsageError(f"no benchmark result at {path}") from None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{file} is not a benchmark result: {error}") from error


def save_result(folder: Path, result: BenchResult) -> None:
    """Writes the result so that a kill leaves either the old or the new file."""
    folder.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(result), indent=1)
    new = folder / (FILE_NAME + ".new")
    new.write_bytes(text + b"\n")
    new.replace(folder / FILE_NAME)
