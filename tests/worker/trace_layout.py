"""Small traces in the layout that jax's profiler gives a TPU's."""

import gzip
import json
from pathlib import Path
from typing import Any

Line = list[tuple[str, float, float]]
"""Name, start and duration in microseconds."""


def events(pid: int, process: str, lines: dict[str, Line]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": process}}
    ]
    for tid, (name, line) in enumerate(lines.items(), 1):
        meta = {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
        found.append(meta)
        for label, start, duration in line:
            found.append(
                {"ph": "X", "pid": pid, "tid": tid, "name": label, "ts": start, "dur": duration}
            )
    return found


def write(folder: Path, found: list[dict[str, Any]]) -> Path:
    path = folder / "host.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": [*found, {}]}).encode()))
    return path
