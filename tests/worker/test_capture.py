"""Capture: good kernels become artifacts, bad and hostile ones typed failures."""

import os
import signal
import time

import pytest
from worker_samples import (
    HEADER,
    RMSNORM_KERNEL,
    ROWS,
    capture_of,
    pointless,
    rowwise,
)

from maxkernel.executor import LocalExecutor
from maxkernel.executor.tree import family, read
from maxkernel.types import ArraySpec, Failure, Tunable
from maxkernel.types.messages import CaptureReply, FailureReply, OutlineReply, OutlineRequest
from maxkernel.worker.zygote import KILLED_AGAIN


def refused(executor: LocalExecutor, source: str, **changes: object) -> Failure:
    reply = executor.submit(capture_of(source, **changes)).result()
    assert isinstance(reply, FailureReply), reply
    return reply.failure


def captured(executor: LocalExecutor, source: str, **changes: object) -> CaptureReply:
    reply = executor.submit(capture_of(source, **changes)).result()
    assert isinstance(reply, CaptureReply), reply
    return reply


def test_facts_of_a_good_kernel(executor: LocalExecutor) -> None:
    facts = captured(executor, RMSNORM_KERNEL, tunables={"rows": 64}).artifact.facts
    (call,) = facts.pallas_calls
    assert call.grid == (64,)
    assert call.blocks == ((64, 1024), (1, 1024), (64, 1024))
    assert call.block_bytes == 2 * (64 + 1 + 64) * 1024
    assert call.moved_bytes == 2 * (4096 * 1024 + 1024 + 4096 * 1024)
    assert call.reaches_output and not call.interpret
    assert facts.outputs == ROWS[:1]
    assert facts.check_outputs[0].shape == (64, 256)
    assert facts.forbidden == () and facts.constant_bytes == 0


def test_same_source_gives_the_same_artifact(executor: LocalExecutor) -> None:
    first = captured(executor, RMSNORM_KERNEL).artifact
    assert captured(executor, RMSNORM_KERNEL).artifact.digest == first.digest
    other = captured(executor, RMSNORM_KERNEL, tunables={"rows": 64}).artifact
    assert other.digest != first.digest


def outlined(
    executor: LocalExecutor, source: str, *assignments: dict[str, Tunable]
) -> OutlineReply:
    one = capture_of(source)
    request = OutlineRequest(
        one.source, assignments, one.target, one.inputs, {}, one.seconds, one.memory_bytes
    )
    reply = executor.submit(request).result()
    assert isinstance(reply, OutlineReply), reply
    return reply


def test_outlines_tell_what_captures_tell(executor: LocalExecutor) -> None:
    choices: list[dict[str, Tunable]] = [
        {"rows": 64},
        {"rows": 128},
        {"rows": 64},
        {"columns": 1},
        {"rows": 1 << 16},
    ]
    reply = outlined(executor, RMSNORM_KERNEL, *choices)
    assert len(reply.outlines) == len(choices)
    same, other, again, unknown, large = reply.outlines
    assert same == again and same.digest != other.digest
    for outline, choice in ((same, choices[0]), (other, choices[1])):
        facts = captured(executor, RMSNORM_KERNEL, tunables=choice).artifact.facts
        assert outline.facts is not None
        assert outline.facts.pallas_calls == facts.pallas_calls
    for outline, kind in ((unknown, "syntax"), (large, "vmem")):
        assert outline.facts is None and outline.failure is not None
        assert outline.failure.kind == kind


def test_outlines_differ_where_only_an_index_map_does(executor: LocalExecutor) -> None:
    source = RMSNORM_KERNEL.replace("lambda i: (i, 0))", "lambda i: (i * 1 * STEP, 0))", 1)
    assert source != RMSNORM_KERNEL
    digests = {
        outlined(executor, f"{source}\nSTEP = {step}", {}).outlines[0].digest for step in (0, 1)
    }
    assert len(digests) == 2


FAULTS = {
    "unclosed bracket": ("def kernel(x:\n    pass", "syntax", "def kernel", "never closed"),
    "no kernel": ("def other(x):\n    return x", "syntax", None, "kernel(*inputs"),
    "empty tunable": ("TUNABLES = {'a': ()}\ndef kernel(x): pass", "syntax", None, "'a'"),
    "undefined name": (pointless("", "return nowhere(x)"), "trace", "nowhere", "nowhere"),
    "too few parameters": ("def kernel(x):\n    return x", "trace", None, "every input"),
    "branch on a value": (
        rowwise("if x_ref[0, 0] > 0:\n    o_ref[...] = x_ref[...]"), "trace", "if x_ref", "pl.when",
    ),
    "store of another shape": (rowwise("o_ref[...] = x_ref[:, :128]"), "trace", ":128", "astype"),
    "store of another dtype": (
        rowwise("o_ref[...] = x_ref[...].astype(jnp.float32)"), "trace", "float32", "astype",
    ),
    "renamed class": (
        rowwise("o_ref[...] = x_ref[...]", ", compiler_params=pltpu.TPUCompilerParams()"),
        "api", "TPUComp", "pltpu.CompilerParams",
    ),
    "moved constant": (pointless("SPACE = pltpu.ANY"), "api", "pltpu.ANY", "pl.ANY"),
    "missing module": ("import torch", "api", "torch", "torch"),
    "old keyword": (
        rowwise("o_ref[...] = x_ref[...]", ", dimension_semantics=('parallel',)"),
        "api", "pl.pallas_call(", "CompilerParams(dimension_semantics",
    ),
    "swapped BlockSpec": (
        pointless("", "return pl.pallas_call(print, grid=(1,), out_shape=x,"
                  " in_specs=[pl.BlockSpec(lambda i: (i, 0), (8, 128))])(x)"),
        "api", "BlockSpec", "block_shape, index_map",
    ),
    "seven rows": (rowwise("o_ref[...] = x_ref[...]", rows=7), "block_shape", None, "(7, 1024)"),
    "sort in a kernel": (
        rowwise("o_ref[...] = jnp.sort(x_ref[...].astype(jnp.float32)).astype(o_ref.dtype)"),
        "unsupported", "jnp.sort", "sort",
    ),
    "no output": (pointless("", "return None"), "output_spec", None, "nothing"),
    "complex output": (
        pointless("", "return x.astype(jnp.complex64)"), "output_spec", None, "complex",
    ),
    "text output": (pointless("", "return 'x'"), "output_spec", None, "not a valid JAX type"),
    "a mesh of cores": (
        pointless("", "return pl.kernel(lambda a, b: None, out_type=x,"
                  " mesh=pltpu.create_tensorcore_mesh('c', num_cores=1))(x)"),
        "unsupported", None, "pl.pallas_call",
    ),
    "callback": (
        pointless("", "return jax.pure_callback(lambda v: v, x, x)"), "callback", None, "pure_call",
    ),
    "print in the program": (
        pointless("", "jax.debug.print('{}', x[0, 0]); return x"), "callback", None, "debug",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_typed(executor: LocalExecutor, name: str) -> None:
    source, kind, place, words = FAULTS[name]
    failure = refused(executor, source)
    assert failure.kind == kind, failure
    assert failure.stage == "capture"
    lines = [i for i, text in enumerate(source.splitlines(), 1) if place and place in text]
    assert failure.line in (lines or [failure.line]), failure
    assert words in failure.message + failure.advice + failure.detail
    assert failure.advice


def test_footprints_that_cannot_fit_are_refused_before_compiling(executor: LocalExecutor) -> None:
    source = rowwise("o_ref[...] = x_ref[...]", rows=4096)
    wide = (ArraySpec((4096, 2048), "bfloat16"), ArraySpec((2048,), "bfloat16"))
    failure = refused(executor, source, target="v4", inputs=wide)
    assert failure.kind == "vmem"
    assert "16 MiB" in failure.message


def test_unknown_tunable_is_named(executor: LocalExecutor) -> None:
    failure = refused(executor, RMSNORM_KERNEL, tunables={"columns": 3})
    assert failure.kind == "syntax"
    assert "columns" in failure.message and "rows" in failure.message


HOSTILE = {
    "exits": ("import sys; sys.exit(3)", "crash", "exit (3)"),
    "exits at once": ("import os; os._exit(0)", "crash", "status 0"),
    "segfaults": ("import ctypes; ctypes.string_at(0)", "crash", "SIGSEGV"),
    "aborts": ("import os; os.abort()", "crash", "SIGABRT"),
    "forks": ("import os; os.fork()", "forbidden", "not permitted"),
    "starts a program": ("import subprocess; subprocess.run(['ls'])", "forbidden", "not permitted"),
    "replaces itself": ("import os; os.execv('/bin/true', ['true'])", "forbidden", "not permitted"),
    "reads a file": ("open('/etc/passwd').read()", "forbidden", "No such file"),
    "reads the host name": ("open('/etc/hostname').read()", "forbidden", "No such file"),
    "writes a file": ("open('/tmp/mark', 'w')", "forbidden", "denied"),
    "makes a folder": ("import os; os.mkdir('/tmp/mark')", "forbidden", "not permitted"),
    "kills its parent": ("import os; os.kill(os.getppid(), 9)", "forbidden", "not permitted"),
    "kills its group": ("import os; os.killpg(0, 9)", "forbidden", "not permitted"),
    "opens a socket": ("import socket; socket.socket()", "forbidden", "not permitted"),
    "raises its limits": (
        "import resource as r; r.setrlimit(r.RLIMIT_AS, (-1, -1))", "trace", "not allowed to raise",
    ),
    "asks numpy for 100 GB": ("import numpy; numpy.ones(100 << 30)", "memory", "Unable to allo"),
    "asks jax for 100 GB": ("jnp.ones(100 << 30, jnp.int8) + 1", "memory", "Out of memory"),
    "asks Python for 100 GB": ("bytearray(100 << 30)", "memory", "MemoryError"),
    "forges a reply": (
        "import os; os.write(3, b'\\0\\0\\0\\5hello'); os._exit(0)", "crash", "does not decode",
    ),
    "forges a large reply": (
        "import os; os.write(3, b'\\xff\\xff\\xff\\xff')", "crash", "larger than 64 MiB",
    ),
    "forges half a reply": (
        "import os; os.write(3, b'\\0\\0\\0\\5he'); os._exit(0)", "crash", "status 0",
    ),
    "forges another kind of reply": (
        "import os, msgspec\nb = msgspec.msgpack.encode({'type': 'checked', 'numerics': 1})\n"
        "os.write(3, len(b).to_bytes(4, 'big') + b); os._exit(0)", "crash", "does not decode",
    ),
    "forges a fault of the machine": (
        "import os, msgspec\n"
        "f = {'stage': 'check', 'kind': 'environment', 'message': 'x\\x1b[2J'}\n"
        "b = msgspec.msgpack.encode({'type': 'failed', 'failure': f})\n"
        "os.write(3, len(b).to_bytes(4, 'big') + b); os._exit(0)", "crash", "x?[2J",
    ),
    "kills itself": ("import os; os.kill(os.getpid(), 9)", "crash", "by SIGKILL, 4 times in a row"),
    "interrupts": ("raise KeyboardInterrupt", "trace", "KeyboardInterrupt"),
    "recurses": ("def f(): return f()\nf()", "trace", "recursion"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_candidates_are_contained(executor: LocalExecutor, name: str) -> None:
    first, kind, words = HOSTILE[name]
    failure = refused(executor, pointless(first))
    assert failure.kind == kind, failure
    assert words in failure.message, failure
    assert captured(executor, RMSNORM_KERNEL).artifact.facts.pallas_calls


def test_sleeping_and_spinning_are_cut_off(executor: LocalExecutor) -> None:
    for first in ("import time; time.sleep(100)", "while True: pass"):
        failure = refused(executor, pointless(first), seconds=0.5)
        assert failure.kind == "timeout"
        assert "0.5 s" in failure.message


def kill_children(executor: LocalExecutor, times: int) -> None:
    """Kills that many processes of candidates, one after another, from outside."""
    hit: set[int] = set()
    ends = time.monotonic() + 60
    while len(hit) < times and time.monotonic() < ends:
        time.sleep(0.02)
        for worker in executor.pids:
            *others, last = family(worker)
            if b"asleep" in read(f"/proc/{last}/comm") and others and last not in hit:
                os.kill(last, signal.SIGKILL)
                hit.add(last)


@pytest.mark.parametrize("times", [1, 3, 4])
def test_a_candidate_is_not_blamed_for_kills(executor: LocalExecutor, times: int) -> None:
    first = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'asleep'); time.sleep(0.5)"
    future = executor.submit(capture_of(f"{first}\n{RMSNORM_KERNEL}", seconds=60.0))
    kill_children(executor, times)
    reply = future.result()
    if times <= KILLED_AGAIN:
        assert isinstance(reply, CaptureReply), reply
    else:
        assert isinstance(reply, FailureReply)
        assert reply.failure.kind == "crash" and "SIGKILL" in reply.failure.message


def test_prints_come_back_and_corrupt_nothing(executor: LocalExecutor) -> None:
    first = "import os; print('hello'); os.write(1, b'raw'); os.write(0, b'') if 0 else None"
    reply = captured(executor, pointless(first, "print(x.shape); return x"))
    assert "hello" in reply.output and "(4096, 1024)" in reply.output
    long = captured(executor, pointless("print('y' * 5_000_000)"))
    assert 0 < len(long.output) <= 4096
    failure = refused(executor, pointless("import os; print('last words', flush=True); os.abort()"))
    assert "last words" in failure.detail


def test_what_was_printed_before_a_failure_is_told(executor: LocalExecutor) -> None:
    failure = refused(executor, pointless("", "print('width', x.shape[1]); return nowhere"))
    assert failure.kind == "trace"
    assert "nowhere" in failure.detail and "width 1024" in failure.detail


def test_candidate_sees_only_what_it_needs(executor: LocalExecutor) -> None:
    first = """
    import os
    print(sorted(os.environ))
    print(os.getuid(), sorted(os.listdir('/')), sorted(map(int, os.listdir('/proc/self/fd'))))
    print([p for p in os.listdir('/proc') if p.isdigit()])
    """
    output = captured(executor, pointless(first)).output
    assert "65534" in output
    assert "'home'" not in output or "/home" in __file__
    assert "[0, 1, 2, 3, 4]" in output  # 4 is the listing itself
    assert "['1', '2'" in output


def test_threads_are_allowed_and_end_with_the_candidate(executor: LocalExecutor) -> None:
    first = """
    import threading, time
    threading.Thread(target=time.sleep, args=(100,)).start()
    """
    assert captured(executor, pointless(first)).artifact.tpu


def test_nothing_is_left_behind_for_the_next_candidate(executor: LocalExecutor) -> None:
    captured(executor, pointless("jnp.mark = 1; jax.jit.mark = 1"))
    output = captured(
        executor, pointless("print([hasattr(m, 'mark') for m in (jnp, jax.jit)])")
    ).output
    assert "[False, False]" in output


def test_decoys_and_interpret_mode_show_in_the_facts(executor: LocalExecutor) -> None:
    dropped = rowwise("o_ref[...] = x_ref[...]") + (
        "\nreal = kernel\ndef kernel(x, scale):\n    real(x, scale)\n    return x + 1\n"
    )
    zeroed = rowwise("o_ref[...] = x_ref[...]") + (
        "\nreal = kernel\ndef kernel(x, scale):\n    return real(x, scale) * 0 + x\n"
    )
    for source in (dropped, zeroed):
        facts = captured(executor, source).artifact.facts
        assert [call.reaches_output for call in facts.pallas_calls] == [False]
    shown = rowwise("o_ref[...] = x_ref[...]", ", interpret=True")
    assert captured(executor, shown).artifact.facts.pallas_calls[0].interpret


def test_constants_and_primitives_are_counted(executor: LocalExecutor) -> None:
    source = (
        HEADER
        + """
import numpy as np
TABLE = np.arange(4096 * 1024, dtype=np.float32)

def kernel(x, scale):
    return x + jnp.asarray(TABLE)[: x.size].reshape(x.shape).astype(x.dtype)
"""
    )
    facts = captured(executor, source).artifact.facts
    assert facts.constant_bytes == 4 * 4096 * 1024
    assert facts.primitives["add"] == 1
    assert facts.pallas_calls == ()
