"""The pool of workers: warm, killed when they misbehave, gone when the control process is."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from maxkernel.config import Settings
from maxkernel.errors import EnvironmentFault
from maxkernel.executor import LocalExecutor
from maxkernel.executor.pool import KILLED_AGAIN
from maxkernel.executor.process import WorkerFault, WorkerProcess
from maxkernel.executor.tree import family
from maxkernel.sandbox import NoSandbox, Sandbox, detect
from maxkernel.tasks import task_from_text
from maxkernel.types import Task, Tolerance
from maxkernel.types.messages import (
    CaptureReply,
    CaptureRequest,
    CheckRequest,
    CompileRequest,
    FailureReply,
    OracleRequest,
    PingReply,
    PingRequest,
    TraceReply,
    TraceRequest,
)

KERNEL = "import jax.numpy as jnp\ndef kernel(x):\n    return x + 1\n"


def task(inputs: str = "jnp.ones((8, 128))", before: str = "") -> Task:
    text = (
        f"import os, time, jax, jax.numpy as jnp\n{before}\n"
        f"def reference(x): return x + 1\ndef inputs(key): return {inputs}\n"
    )
    return task_from_text("t", "maxkernel", "t.py", {"t.py": text})


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def soon(condition: Callable[[], bool], seconds: float = 15) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(scope="module", params=["best", "none"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return detect(allow_none=True) if request.param == "best" else NoSandbox()


def capture() -> CaptureRequest:
    from maxkernel.types import ArraySpec

    spec = (ArraySpec((8, 128), "float32"),)
    return CaptureRequest(KERNEL, {}, "v6e", spec, spec, {}, {}, 30.0, 8 << 30)


def test_life_of_a_pool(sandbox: Sandbox) -> None:
    """Workers start lazily, stay warm, are replaced after a death, and end with the pool."""
    with LocalExecutor(Settings(workers=1), sandbox) as pool:
        assert pool.sandbox == sandbox.level
        assert pool.pids == []
        assert isinstance(pool.submit(capture()).result(), CaptureReply)
        (first,) = pool.pids
        assert isinstance(pool.submit(capture()).result(), CaptureReply)
        threads = {pid: len(os.listdir(f"/proc/{pid}/task")) for pid in family(first)}
        assert set(threads.values()) == {1}, "the fork server must have one thread"
        assert pool.pids == [first]

        members = family(first)
        for pid in members:
            os.kill(pid, signal.SIGKILL)
        assert soon(lambda: not any(map(alive, members)))
        reply = pool.submit(capture()).result()
        assert isinstance(reply, CaptureReply), "a kill from outside says nothing of a request"
        (second,) = pool.pids
        assert second != first
        members = family(second)
    assert soon(lambda: not any(map(alive, members)))
    late = pool.submit(capture()).result()
    assert isinstance(late, FailureReply) and late.failure.kind == "environment"


def test_hanging_and_growing_workers_are_killed() -> None:
    sandbox = detect(allow_none=True)
    settings = Settings(workers=1, trace_seconds=1.0, check_seconds=60.0, worker_memory_mb=1024)
    with LocalExecutor(settings, sandbox) as pool:
        warm = pool.submit(TraceRequest(task(), "v6e", 1 << 28)).result()
        assert isinstance(warm, TraceReply), warm
        hang = task(before="time.sleep(1000)")
        started = time.monotonic()
        reply = pool.submit(TraceRequest(hang, "v6e", 1 << 28)).result()
        assert isinstance(reply, FailureReply) and reply.failure.kind == "timeout"
        assert time.monotonic() - started < 10
        assert "1 s" in reply.failure.message

        grow = task(before="held = b'x' * (3 << 30); time.sleep(1000)")
        reply = pool.submit(OracleRequest(grow, 1)).result()
        assert isinstance(reply, FailureReply) and reply.failure.kind == "memory", reply
        die = task(before="os._exit(7)")
        reply = pool.submit(CheckRequest(die, b"", b"", 1, Tolerance(1, 1))).result()
        assert isinstance(reply, FailureReply) and reply.failure.kind == "crash"
        assert "status 7" in reply.failure.message
        assert isinstance(pool.submit(TraceRequest(task(), "v6e", 1 << 28)).result(), TraceReply)


def test_a_compiler_that_dies_every_time_is_a_compile_crash() -> None:
    with LocalExecutor(Settings(workers=1), detect(allow_none=True)) as pool:
        assert isinstance(pool.submit(PingRequest()).result(), PingReply)
        (first,) = pool.pids
        compiler = family(first)[-1]
        os.kill(compiler, signal.SIGSTOP)
        pending = pool.submit(CompileRequest(b"", "v6e"))
        os.kill(compiler, signal.SIGKILL)
        killed = {first}
        while not pending.done():
            for pid in set(pool.pids) - killed:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            time.sleep(0.001)
        reply = pending.result()
        assert isinstance(reply, FailureReply) and reply.failure.kind == "compile_crash", reply
        assert "signal 9" in reply.failure.message
        assert len(killed) == 1 + KILLED_AGAIN


def test_a_worker_whose_child_holds_the_pipe_is_seen_to_die(tmp_path: Path) -> None:
    """A sandbox killed as it starts leaves such a child: without a look it ran into its limit."""
    folder = tmp_path / "worker"
    folder.mkdir()
    script = "sleep 1000 & echo $! > child; kill -9 $$"
    worker = WorkerProcess(["sh", "-c", script], folder, {"PATH": os.environ["PATH"]})
    with pytest.raises(WorkerFault, match="signal 9") as caught:
        worker.ask(b"x", 30.0, 1 << 40, 100)
    assert caught.value.kind == "died" and caught.value.killed
    child = int((folder / "child").read_text())
    assert soon(lambda: not alive(child))
    worker.close()


WORK = """
import os, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.stdin.buffer.read(5)
while time.process_time() < float(sys.argv[1]): pass
time.sleep(float(sys.argv[2]))
sys.stdout.buffer.write(bytes([0, 0, 0, 1]) + b"y"); sys.stdout.flush(); time.sleep(1000)
"""
RIVAL = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"


def test_a_limit_counts_what_the_machine_let_a_worker_do(tmp_path: Path) -> None:
    """With a rival on its processor one goes on past its limit; one that hangs does not."""

    def ask(work: float, rest: float) -> bytes:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        command = [sys.executable, "-c", WORK, str(work), str(rest)]
        worker = WorkerProcess(command, folder, dict(os.environ))
        try:
            return worker.ask(b"x", 2.0, 1 << 40, 100)
        finally:
            worker.close()

    command = [sys.executable, "-c", RIVAL]
    rival = subprocess.Popen(command, start_new_session=True)
    try:
        started = time.monotonic()
        assert ask(1.2, 0.0) == b"y"
        assert time.monotonic() - started > 2.1, "the rival took nothing"
        for work, rest in ((1000, 0.0), (0.0, 1000)):
            started = time.monotonic()
            with pytest.raises(WorkerFault, match="longer than 2 s"):
                ask(work, rest)
            assert time.monotonic() - started < 15
    finally:
        rival.kill()
        rival.wait()


def test_prints_and_writes_of_a_task_do_not_reach_the_pipe() -> None:
    loud = task(before="print('x' * 100000); os.write(1, b'raw' * 1000); os.write(2, b'err')")
    with LocalExecutor(Settings(workers=1), NoSandbox()) as pool:
        assert isinstance(pool.submit(TraceRequest(loud, "v6e", 1 << 28)).result(), TraceReply)


def test_requests_run_side_by_side_and_can_be_cancelled() -> None:
    with LocalExecutor(Settings(workers=2), detect(allow_none=True)) as pool:
        slow = pool.submit(TraceRequest(task(before="time.sleep(2)"), "v6e", 1 << 28))
        queued = pool.submit(TraceRequest(task(), "v6e", 1 << 28))
        ping = pool.submit(PingRequest())
        reply = ping.result()
        assert isinstance(reply, PingReply) and {"jax", "libtpu"} <= set(reply.versions)
        assert queued.cancel()
        assert isinstance(slow.result(), TraceReply)
        assert all(isinstance(future.result(), PingReply) for future in pool.warm())
        assert len(pool.pids) == 3


def test_closing_answers_what_is_open() -> None:
    pool = LocalExecutor(Settings(workers=1), NoSandbox())
    futures = [
        pool.submit(TraceRequest(task(before="time.sleep(1000)"), "v6e", 1 << 28)) for _ in range(3)
    ]
    assert soon(lambda: len(pool.pids) == 1)
    pool.close()
    replies = [future.result(timeout=20) for future in futures]
    assert all(isinstance(r, FailureReply) and r.failure.kind == "environment" for r in replies)


CONTROL = """
import sys, time
from maxkernel.config import Settings
from maxkernel.executor import LocalExecutor
from maxkernel.executor.pool import KILLED_AGAIN
from maxkernel.executor.process import WorkerFault, WorkerProcess
from maxkernel.executor.tree import family
from maxkernel.sandbox import NoSandbox, detect
from maxkernel.types.messages import PingRequest
pool = LocalExecutor(Settings(workers=1), {sandbox})
for future in pool.warm():
    future.result()
print(*[pid for worker in pool.pids for pid in family(worker)], pool._root, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("sandbox_code", ["NoSandbox()", "detect(allow_none=True)"])
def test_workers_end_when_the_control_process_is_killed(sandbox_code: str, tmp_path: Path) -> None:
    code = textwrap.dedent(CONTROL.format(sandbox=sandbox_code))
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    ) as control:
        assert control.stdout is not None
        *pids, folder = control.stdout.readline().split()
        living = [alive(int(pid)) for pid in pids]
        control.kill()
    assert len(living) >= 3 and all(living)
    assert soon(lambda: not any(alive(int(pid)) for pid in pids))
    assert Path(folder).exists()
    sweep = "from maxkernel.executor.stale import remove_stale; remove_stale()"
    subprocess.run([sys.executable, "-c", sweep], env=environment, check=True, timeout=60)
    assert not Path(folder).exists()


def test_an_interpreter_that_cannot_serve_is_an_environment_fault(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault) as fault:
        LocalExecutor(Settings(worker_python="/no/such/python"), NoSandbox())
    assert "worker_python" in fault.value.advice

    fake = tmp_path / "python"
    fake.write_text(
        f'#!/bin/sh\nif [ "$1" != -m ]; then exec {sys.executable} "$@"; fi\n'
        'echo "ModuleNotFoundError: No module named jax" >&2; exit 1\n'
    )
    fake.chmod(0o755)
    with LocalExecutor(Settings(worker_python=str(fake)), NoSandbox()) as pool:
        reply = pool.submit(PingRequest()).result()
    assert isinstance(reply, FailureReply) and reply.failure.kind == "environment"
    assert "No module named jax" in reply.failure.detail
