"""The reader of profiler traces: one that jax writes here, and small ones in the TPU's layout."""

import gzip
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from trace_layout import events, write

from maxkernel.worker import traces
from maxkernel.worker.traces import TraceError, executions, find_trace, read_trace

TWO = {
    "Steps": [("0", 0.0, 200.0)],
    "XLA Modules": [
        ("jit_a(77)", 0.0, 10.0),
        ("jit_b(78)", 20.0, 30.0),
        ("jit_a(77)", 60.0, 12.0),
        ("jit_b(78)", 80.0, 32.0),
        ("jit_ab(79)", 120.0, 500.0),
    ],
    "XLA Ops": [
        ("fusion.1", 0.0, 4.0),
        ("custom-call.2", 5.0, 5.0),
        ("while.1", 20.0, 30.0),
        ("body.1", 21.0, 9.0),
        ("body.1", 31.0, 10.0),
        ("fusion.1", 60.0, 4.0),
        ("custom-call.2", 65.0, 7.5),
        ("while.1", 80.0, 32.0),
        ("other", 120.0, 500.0),
    ],
    "Async XLA Ops": [("copy-start", 3.0, 3.0)],
}


def test_two_interleaved_programs_are_told_apart(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, events(3, "/device:TPU:0", TWO)))
    first, second = executions(trace, "jit_a"), executions(trace, "jit_b")
    assert [run.seconds for run in first] == pytest.approx([10e-6, 12.5e-6])
    assert [run.busy for run in first] == pytest.approx([10e-6, 11.5e-6])
    assert [run.seconds for run in second] == pytest.approx([30e-6, 32e-6])
    assert first[0].ops == pytest.approx({"fusion.1": 4e-6, "custom-call.2": 5e-6})
    assert second[0].ops == pytest.approx({"while.1": 11e-6, "body.1": 19e-6})


def test_a_device_of_two_cores_is_as_slow_as_the_slower_one(tmp_path: Path) -> None:
    def core(pid: int, late: float) -> list[dict[str, Any]]:
        lines = {
            "XLA Modules": [("jit_a(1)", late, 10.0), ("jit_a(1)", 50.0, 10.0)],
            "XLA Ops": [("fusion", late, 9.0 + late), ("fusion", 50.0, 9.0)],
        }
        return events(pid, f"/device:TPU:{pid}", lines)

    both = write(tmp_path, core(0, 0.0) + core(1, 2.0))
    runs = executions(read_trace(both), "jit_a", cores=2)
    assert [run.seconds for run in runs] == pytest.approx([13e-6, 10e-6])
    assert [run.ops["fusion"] for run in runs] == pytest.approx([11e-6, 9e-6])
    short = [event for event in core(1, 2.0) if event.get("ts") != 50.0]
    with pytest.raises(TraceError, match="2 and 1 runs"):
        executions(read_trace(write(tmp_path, core(0, 0.0) + short)), "jit_a", cores=2)


def test_the_devices_own_picoseconds_are_used(tmp_path: Path) -> None:
    found = events(
        3, "/device:TPU:0", {"XLA Modules": [("jit_a", 0.0, 1.235)], "XLA Ops": [("x", 0.0, 1.0)]}
    )
    module = next(e for e in found if e["name"] == "jit_a")
    for text, expected in (("1234567", 1.234567e-6), ("99999999", 1.235e-6), ("1e9", 1.235e-6)):
        module["args"] = {"device_duration_ps": text}
        (run,) = executions(read_trace(write(tmp_path, found)), "jit_a")
        assert run.seconds == pytest.approx(expected, rel=1e-9)


MODULE_ONLY = {"XLA Modules": [("jit_a", 0.0, 1.0)]}


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (events(1, "/host:CPU", TWO), "no device"),
        ([], "no device"),
        (events(1, "/device:TPU:0", {"XLA Ops": TWO["XLA Ops"]}), "no line"),
        (events(1, "/device:TPU:0", MODULE_ONLY), "no line"),
        (events(1, "/device:TPU:0", {"XLA Modules": [("jit_b", 0.0, 1.0)]}), "no program"),
        (events(1, "/device:TPU:0", TWO) + events(2, "/device:TPU:1", TWO), "no program"),
    ],
)
def test_what_a_trace_lacks_is_named(
    tmp_path: Path, found: list[dict[str, Any]], problem: str
) -> None:
    with pytest.raises(TraceError) as caught:
        executions(read_trace(write(tmp_path, found)), "jit_a")
    assert caught.value.problem == problem


def test_files_that_are_no_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = write(tmp_path, events(3, "/device:TPU:0", TWO)).read_bytes()
    nan = json.dumps({"traceEvents": events(1, "x", {"y": [("e", 0.0, -1.0)]})}).encode()
    bad = tmp_path / "bad.trace.json.gz"
    for data in (
        whole[:-20],
        whole[:40],
        b"",
        b"no gzip at all",
        gzip.compress(b'{"traceEvents": 3}'),
        gzip.compress(b'{"traceEvents": [{"ts": "soon"}]}'),
        gzip.compress(b"\xff\xfe"),
        gzip.compress(b'{"traceEvents": [{"args": {"a": ' + b"[" * 100_000),
        gzip.compress(nan),
    ):
        bad.write_bytes(data)
        with pytest.raises(TraceError) as caught:
            read_trace(bad)
        assert caught.value.problem == "file", data[:40]
    monkeypatch.setattr(traces, "TEXT_LIMIT", 1000)
    bad.write_bytes(gzip.compress(b" " * 1001))
    with pytest.raises(TraceError, match="unpacks to more"):
        read_trace(bad)
    monkeypatch.setattr(traces, "FILE_LIMIT", 10)
    with pytest.raises(TraceError, match="at most 10"):
        read_trace(bad)


def test_a_trace_that_hit_the_writers_limit_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "EVENTS_LIMIT", 5)
    with pytest.raises(TraceError, match="dropped"):
        read_trace(write(tmp_path, events(3, "/device:TPU:0", TWO)))


def test_a_trace_that_jax_writes_here_is_read_and_shows_no_tpu(tmp_path: Path) -> None:
    def squares(x: jax.Array) -> jax.Array:
        return jnp.sum(x * x)

    compiled = jax.jit(squares).lower(jnp.ones((64,))).compile()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with jax.profiler.trace(str(tmp_path), profiler_options=options):
        for _ in range(3):
            jax.block_until_ready(compiled(jnp.ones((64,))))
    trace = read_trace(find_trace(tmp_path))
    (host,) = [process for process in trace if process.name == "/host:CPU"]
    assert sum(len(line) for line in host.lines.values()) >= 3
    assert all(0 <= event.duration < 10 for line in host.lines.values() for event in line)
    with pytest.raises(TraceError) as caught:
        executions(trace, "jit_squares")
    assert caught.value.problem == "no device"
    assert "/host:CPU" in str(caught.value)


def test_a_folder_without_a_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="0 traces"):
        find_trace(tmp_path)
