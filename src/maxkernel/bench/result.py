"""The result of a benchmark as data: settings, one row per task, and the file that keeps them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import msgspec

from maxkernel.errors import UsageError
from maxkernel.types import Time, Tunable

FILE_NAME = "bench.json"
FORMAT = 2


class Settings(msgspec.Struct, frozen=True):
    """What makes two results comparable row by row."""

    suite: str
    edition: str
    target: str
    team: str
    """`builtin`, the models' notations, or `given kernels`."""
    mode: str
    """`auto`, `graph` or `judge`."""
    candidates: int
    """Evaluations per task at most."""
    seconds: float
    """Seconds of search per task at most."""
    kernels: str = ""
    """Digest of the kernels that are judged instead of searching; empty otherwise."""
    patience: int = 3
    """Rounds without gain after which a task's search stops."""
    task_seconds: float = 1800.0
    """Seconds per task at most, baseline and expert included."""
    policy: str = ""
    """Of a graph search."""
    seed: int = 0
    """Of a graph search."""
    max_cost: float | None = None
    """US dollars for models per task at most."""
    max_tokens: int | None = None
    max_requests: int | None = None

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
    """`faster`, `fits` (XLA's program does not), `xla`, `none`, `accepted` (a given kernel),
    `refused`, `timeout` or `error`."""
    baseline: Time | None = None
    best: Time | None = None
    speedup: float | None = None
    roofline_fraction: float | None = None
    baseline_fraction: float | None = None
    published_xla_ms: float | None = None
    published_pallas_ms: float | None = None
    expert: Time | None = None
    """Our own implementation of the published algorithm, judged like any candidate."""
    expert_problem: str = ""
    """Why the expert was not accepted; empty where it was, or where there is none."""
    expert_doubt: str = ""
    """As `doubt`, for the expert's time."""
    plan: str = ""
    tunables: dict[str, Tunable] = {}
    evaluations: int = 0
    seconds: float = 0.0
    """On this machine, tracing, the baseline and the expert included."""
    message: str = ""
    """Why there is no faster kernel, in words."""
    run: str = ""
    cost: float | None = None
    """US dollars for models; None where none was asked or a price is not known."""
    tokens: int = 0
    """Of models, in and out."""
    doubt: str = ""
    """What the clock had to assume about data, so that no claim of speed is made."""
    soundness: str = ""
    """The suite's verdict on the task as published; empty in the hardened edition."""
    weakness: str = ""
    """What is weak about it, in words."""
    holes: tuple[str, ...] = ()
    """Programs that do not do the work and yet pass this task's check, found by lint."""
    made: float = 0.0
    """Unix time."""
    code: str = ""
    """Digest of the maxkernel that made the row."""
    misfit: str = ""
    """Why XLA's program cannot run on the target at all."""

    @property
    def passable(self) -> bool:
        """The task's check can be passed without doing the work.

        Of an edition with the published inputs, that is the suite's verdict on the published
        check; the judge's own is tighter, and `holes` says what still passes it.
        """
        if self.soundness:
            return self.soundness in ("broken", "collapses")
        return bool(self.holes)


class BenchResult(msgspec.Struct, frozen=True):
    """A table: what was run, with what, and every row so far."""

    format: int
    settings: Settings
    versions: dict[str, str]
    created: float
    rows: tuple[Row, ...]
    sandbox: str = ""
    stages: dict[str, int] = {}
    """Versions of the judge's stages: times of two clocks do not share a table."""
    tasks: int = 0
    """Tasks that were asked for; more than there are rows in a table that was stopped."""


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
