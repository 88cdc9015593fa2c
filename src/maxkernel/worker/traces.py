"""Reads the chrome trace that jax's profiler writes: how long a device was at which program.

The layout is that of `*.trace.json.gz` beside `*.xplane.pb`: metadata events name processes
(`/device:TPU:0`) and their lines (`XLA Modules`, `XLA Ops`, `Async XLA Ops`, `Steps`); complete
events (`ph` X) have a start and a duration in microseconds, and on a device also a
`device_duration_ps`. The file is read as hostile data: sizes are limited and every field checked.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

FILE_LIMIT = 64 << 20
"""Bytes of a compressed trace."""
TEXT_LIMIT = 512 << 20
"""Bytes of a trace when it is decompressed."""
EVENTS_LIMIT = 1_000_000
"""Complete events: jax's writer drops what is beyond, so that a trace that long is not whole."""

MODULES, OPS, ASYNC_OPS = "XLA Modules", "XLA Ops", "Async XLA Ops"
DEVICE = re.compile(r"/device:TPU:\d+")
"""The processes of a trace that are TPU devices; its host is `/host:CPU`."""

Problem = Literal["file", "limit", "no device", "no line", "no program"]


class TraceError(Exception):
    """A trace that does not say how long a program took, and why."""

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem: Problem = problem


@dataclass(frozen=True)
class Event:
    """Something that a line of a trace shows, in seconds."""

    name: str
    start: float
    duration: float

    @property
    def end(self) -> float:
        """When it ended."""
        return self.start + self.duration


@dataclass
class Process:
    """A device or the host: its events by the name of their line."""

    name: str
    lines: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])


@dataclass(frozen=True)
class Execution:
    """One run of a program on a device, in seconds."""

    start: float
    seconds: float
    """From its first event to the end of its last operation, pauses included."""
    busy: float
    """In which at least one of its operations ran."""
    ops: dict[str, float]
    """Time of each operation by name, without the operations inside it."""


class _Raw(msgspec.Struct):
    ph: str = ""
    name: str = ""
    pid: int = 0
    tid: int = 0
    ts: float = 0.0
    dur: float = 0.0
    args: dict[str, Any] = {}


class _File(msgspec.Struct):
    events: list[_Raw] = msgspec.field(name="traceEvents")


def find_trace(folder: Path) -> Path:
    """The one trace below the folder that the profiler wrote to. Raises TraceError."""
    found = sorted(folder.glob("plugins/profile/*/*.trace.json.gz"))
    if len(found) != 1:
        raise TraceError("file", f"the profiler wrote {len(found)} traces, not one")
    return found[0]


def read_trace(path: Path) -> list[Process]:
    """Devices and host of a trace. Raises TraceError for a file that is cut, foreign or too large.

    A line that occurs twice in a process is one line here.
    """
    try:
        raw = msgspec.json.decode(_text(path), type=_File).events
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError("file", f"{path.name} is no trace of jax's profiler: {error}") from error
    complete = [event for event in raw if event.ph == "X"]
    if len(complete) >= EVENTS_LIMIT:
        raise TraceError("limit", f"{path.name} has {len(complete)} events, so some were dropped")
    processes: dict[int, Process] = {}
    lines: dict[tuple[int, int], str] = {}
    for event in raw:
        name = event.args.get("name")
        if event.ph == "M" and isinstance(name, str):
            if event.name == "process_name":
                processes[event.pid] = Process(name)
            elif event.name == "thread_name":
                lines[event.pid, event.tid] = name
    for event in complete:
        line = lines.get((event.pid, event.tid))
        if line is not None and event.pid in processes:
            processes[event.pid].lines.setdefault(line, []).append(_event(event, path))
    return list(processes.values())


def executions(processes: Sequence[Process], program: str, cores: int = 1) -> tuple[Execution, ...]:
    """Every run of the module `program` (`jit_` and the function's name), in order of time.

    All device events that start within a run belong to it, whatever their names. Up to `cores`
    devices of the trace may show the program, where each TensorCore has one: a run lasts until the
    last of them ends. Raises TraceError where no device, or more, show it, where they show
    different numbers of runs, or where a run shows no operation.
    """
    devices = [process for process in processes if DEVICE.fullmatch(process.name)]
    if not devices:
        seen = ", ".join(process.name for process in processes) or "nothing"
        raise TraceError("no device", f"the trace shows no TPU, only {seen}")
    if not any(MODULES in device.lines for device in devices):
        raise TraceError("no line", f"no device of the trace has a line `{MODULES}`")
    found = [device for device in devices if _runs(device, program)]
    if not 1 <= len(found) <= cores:
        raise TraceError("no program", f"{len(found)} devices show `{program}`, not {cores}")
    shown = [_executions(device, program) for device in found]
    if len({len(runs) for runs in shown}) != 1:
        counts = " and ".join(str(len(runs)) for runs in shown)
        raise TraceError("no program", f"the cores show {counts} runs of `{program}`")
    return tuple(_joined(runs) for runs in zip(*shown, strict=True))


def _joined(runs: Sequence[Execution]) -> Execution:
    """One run on several cores: from the first start to the last end, each operation once."""
    start = min(run.start for run in runs)
    end = max(run.start + run.seconds for run in runs)
    names = dict.fromkeys(name for run in runs for name in run.ops)
    ops = {name: max(run.ops.get(name, 0.0) for run in runs) for name in names}
    return Execution(start, end - start, max(run.busy for run in runs), ops)


def _executions(device: Process, program: str) -> tuple[Execution, ...]:
    ops, background = device.lines.get(OPS, []), device.lines.get(ASYNC_OPS, [])
    runs = _runs(device, program)
    return tuple(
        _execution(run, mine, behind, program)
        for run, mine, behind in zip(
            runs, _divide(ops, runs), _divide(background, runs), strict=True
        )
    )


def _runs(device: Process, program: str) -> list[Event]:
    """Events of the module: its name alone or with a fingerprint behind, `name(123)`."""
    events = device.lines.get(MODULES, [])
    found = [event for event in events if event.name.split("(")[0] == program]
    return sorted(found, key=lambda event: event.start)


def _divide(events: Sequence[Event], runs: Sequence[Event]) -> list[list[Event]]:
    """The events that start within each run; runs are in order and do not overlap."""
    ordered = sorted(events, key=lambda event: (event.start, -event.end))
    shares: list[list[Event]] = []
    position = 0
    for run in runs:
        while position < len(ordered) and ordered[position].start < run.start:
            position += 1
        first = position
        while position < len(ordered) and ordered[position].start < run.end:
            position += 1
        shares.append(ordered[first:position])
    return shares


def _execution(
    run: Event, ops: Sequence[Event], background: Sequence[Event], program: str
) -> Execution:
    if not ops:
        raise TraceError("no line", f"a run of `{program}` shows no event on the line `{OPS}`")
    end = max(run.end, *(op.end for op in ops))
    return Execution(run.start, end - run.start, _covered([*ops, *background], end), _own(ops))


def _covered(events: Iterable[Event], end: float) -> float:
    """Length of the union of the events, cut at `end`."""
    total, reached = 0.0, -math.inf
    for event in sorted(events, key=lambda event: event.start):
        stop = min(event.end, end)
        total += max(0.0, stop - max(event.start, reached))
        reached = max(reached, stop)
    return total


def _own(ops: Sequence[Event]) -> dict[str, float]:
    """Time by name, without that of events inside: loops and calls contain their bodies."""
    own: dict[str, float] = {}
    around: list[Event] = []
    for op in ops:
        while around and around[-1].end <= op.start:
            around.pop()
        if around:
            own[around[-1].name] -= min(op.duration, around[-1].end - op.start)
        own[op.name] = own.get(op.name, 0.0) + op.duration
        around.append(op)
    return {name: max(0.0, seconds) for name, seconds in own.items()}


def _event(raw: _Raw, path: Path) -> Event:
    if not (math.isfinite(raw.ts) and math.isfinite(raw.dur)) or raw.dur < 0:
        raise TraceError("file", f"{path.name}: event {raw.name[:80]!r} lasts {raw.dur} us")
    return Event(raw.name, raw.ts * 1e-6, _exact(raw.args, raw.dur * 1e-6))


def _exact(args: dict[str, Any], rounded: float) -> float:
    """The device's own picoseconds, where they say what the event says to a nanosecond or so."""
    text = args.get("device_duration_ps")
    if isinstance(text, str | int) and re.fullmatch(r"\d{1,18}", str(text)):
        exact = int(text) * 1e-12
        if abs(exact - rounded) <= 2e-9:
            return exact
    return rounded


def _text(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        packed = path.read_bytes() if size <= FILE_LIMIT else b""
    except OSError as error:
        raise TraceError("file", f"{path.name} cannot be read: {error.strerror}") from error
    if size > FILE_LIMIT:
        raise TraceError("limit", f"{path.name} has {size} bytes; at most {FILE_LIMIT} are read")
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(packed, TEXT_LIMIT)
    except zlib.error as error:
        raise TraceError("file", f"{path.name} is no gzip file: {error}") from error
    if unpacker.unconsumed_tail:
        raise TraceError("limit", f"{path.name} unpacks to more than {TEXT_LIMIT} bytes")
    if not unpacker.eof:
        raise TraceError("file", f"{path.name} ends early: it was cut")
    return text
