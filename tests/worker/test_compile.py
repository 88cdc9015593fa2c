"""The real TPU compiler: what it accepts, and what it says of what it refuses."""

import pytest
from worker_samples import RMSNORM_KERNEL, capture_of, pointless, rowwise

from maxkernel.executor import LocalExecutor
from maxkernel.schedule import unsure
from maxkernel.tasks import task_from_text
from maxkernel.types import ArraySpec, Task
from maxkernel.types.messages import (
    CaptureReply,
    CompileReply,
    CompileRequest,
    FailureReply,
    TraceReply,
    TraceRequest,
)

WIDE = (ArraySpec((4096, 2048), "bfloat16"), ArraySpec((2048,), "bfloat16"))


def program(executor: LocalExecutor, source: str, **changes: object) -> bytes:
    reply = executor.submit(capture_of(source, **changes)).result()
    assert isinstance(reply, CaptureReply), reply
    return reply.artifact.tpu


def test_a_good_kernel_compiles_and_is_timed(executor: LocalExecutor) -> None:
    request = CompileRequest(program(executor, RMSNORM_KERNEL), "v6e")
    reply = executor.submit(request).result()
    assert isinstance(reply, CompileReply), reply
    assert reply.program is not None, reply.schedule_problem
    moved = 2 * 4096 * 1024 * 2
    assert moved / 1.64e12 < reply.program.seconds < 20 * moved / 1.64e12
    assert reply.memory["output"] == 4096 * 1024 * 2
    assert reply.compiler.startswith("jax ") and "libtpu" in reply.compiler
    kernel = next(op for op in reply.program.ops if op.kind == "kernel")
    assert kernel.buffers and reply.program.vmem_bytes == 128 << 20


def test_each_target_has_its_own_compiler(executor: LocalExecutor) -> None:
    """Each names the lines of the kernel that its instructions come from."""
    seconds, text = {}, RMSNORM_KERNEL.splitlines()
    for target in ("v4", "v5e", "v7x"):
        request = CompileRequest(program(executor, RMSNORM_KERNEL, target=target), target)
        reply = executor.submit(request).result()
        assert isinstance(reply, CompileReply), reply
        assert reply.program is not None, reply.schedule_problem
        seconds[target] = reply.program.seconds
        lines = [line for op in reply.program.ops for line in op.lines]
        assert {line.file for line in lines} == {"kernel.py"}
        assert any("rsqrt" in text[line.line - 1] for line in lines)
    assert len(set(seconds.values())) == 3 and None not in seconds.values()


REFUSALS = {
    "blocks twice as large as VMEM": (
        rowwise("o_ref[...] = x_ref[...] * 2", rows=2048),
        {"target": "v4", "inputs": WIDE}, "vmem", "vmem",
    ),
    "a table in SMEM": (
        rowwise("o_ref[...] = x_ref[...]", ", scratch_shapes=[pltpu.SMEM((2048, 512), jnp.int32)]")
        .replace("def body(x_ref, o_ref):", "def body(x_ref, o_ref, table):\n    table[0, 0] = 1"),
        {}, "vmem", "smem",
    ),
    "more than HBM": (
        pointless(
            "def copy(a, o): pltpu.sync_copy(a, o)\nANY = pl.BlockSpec(memory_space=pl.ANY)",
            "y = jnp.broadcast_to(x[:, :, None], (*x.shape, 1 << 13)) if x.shape[0] > 64 else x\n"
            "    z = pl.pallas_call(copy, in_specs=[ANY], out_specs=ANY,"
            " out_shape=jax.ShapeDtypeStruct(y.shape, y.dtype))(y)\n"
            "    return z[..., 0] if x.shape[0] > 64 else z",
        ),
        {}, "hbm", "HBM",
    ),
    "strided load of 16-bit data": (
        rowwise("o_ref[...] = jnp.concatenate([x_ref[:, ::2], x_ref[:, 1::2]], axis=1)"),
        {}, "unsupported", "Strided load",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_typed(executor: LocalExecutor, name: str) -> None:
    source, changes, kind, words = REFUSALS[name]
    bytecode = program(executor, source, **changes)
    target = str(changes.get("target", "v6e"))
    reply = executor.submit(CompileRequest(bytecode, target)).result()
    assert isinstance(reply, FailureReply), reply
    assert (reply.failure.stage, reply.failure.kind) == ("compile", kind), reply.failure
    assert words in reply.failure.message + reply.failure.detail
    assert reply.failure.advice


def test_a_line_is_named_where_the_compiler_knows_it(executor: LocalExecutor) -> None:
    source, *_ = REFUSALS["strided load of 16-bit data"]
    reply = executor.submit(CompileRequest(program(executor, source), "v6e")).result()
    line = next(i for i, text in enumerate(source.splitlines(), 1) if "concatenate" in text)
    assert reply.failure.line == line


def test_garbage_is_refused(executor: LocalExecutor) -> None:
    reply = executor.submit(CompileRequest(b"not a program", "v6e")).result()
    assert isinstance(reply, FailureReply)
    assert reply.failure.stage == "compile"


def task_of(text: str) -> Task:
    return task_from_text("task", "maxkernel", "task.py", {"task.py": text})


RAGGED = """
import jax, jax.numpy as jnp

def reference(x, w, sizes):
    return jax.lax.ragged_dot(x, w, sizes)

def inputs(key):
    sizes = jnp.array({sizes}, jnp.int32)
    return jnp.ones((2048, 256), jnp.bfloat16), jnp.ones((4, 256, 256), jnp.bfloat16), sizes
"""


@pytest.mark.parametrize("target", ["v6e", "v5p"])
def test_the_groups_of_a_ragged_product_are_known_to_the_clock(
    executor: LocalExecutor, target: str
) -> None:
    """XLA computes tile counts from the sizes in a kernel of its own, which the clock executes."""
    seconds = {}
    for sizes in ([2048, 0, 0, 0], [8, 0, 0, 0]):
        task = task_of(RAGGED.replace("{sizes}", str(sizes)))
        traced = executor.submit(TraceRequest(task, target, 1 << 33)).result()
        assert isinstance(traced, TraceReply), traced
        request = CompileRequest(traced.info.reference_tpu, target, task=task, seeds=(1, 2))
        reply = executor.submit(request).result()
        assert isinstance(reply, CompileReply) and reply.program, reply
        assert unsure(reply.program) == "" and reply.program.draws == ()
        seconds[sizes[0]] = reply.program.seconds
    assert seconds[2048] > 1.2 * seconds[8]
