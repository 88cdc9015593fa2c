"""Kernels of every style go all the way: captured, compiled for a TPU, equal to the reference."""

import pytest
from worker_samples import HEADER, task_of

from maxkernel.executor import LocalExecutor
from maxkernel.types.messages import (
    CaptureReply,
    CaptureRequest,
    CheckReply,
    CheckRequest,
    CompileReply,
    CompileRequest,
    TraceReply,
    TraceRequest,
)

DOUBLE_TASK = """
import jax, jax.numpy as jnp

def reference(x):
    return jax.nn.relu(x * 2)

def inputs(key):
    return jax.random.normal(key, (512, 512))

def check_inputs(key):
    return jax.random.normal(key, (64, 256))
"""

MATMUL_TASK = """
import jax, jax.numpy as jnp

def reference(a, b):
    return jnp.dot(a, b, preferred_element_type=jnp.float32).astype(jnp.bfloat16)

def _make(key, m, k, n):
    one, two = jax.random.split(key)
    return (
        jax.random.normal(one, (m, k), jnp.bfloat16), jax.random.normal(two, (k, n), jnp.bfloat16)
    )

def inputs(key):
    return _make(key, 512, 512, 512)

def check_inputs(key):
    return _make(key, 128, 256, 128)
"""

GATHER_TASK = """
import jax, jax.numpy as jnp

def reference(indices, table):
    return table[indices]

def _make(key, n, rows):
    one, two = jax.random.split(key)
    return jax.random.randint(one, (n,), 0, rows), jax.random.normal(two, (rows, 8, 128))

def inputs(key):
    return _make(key, 64, 128)

def check_inputs(key):
    return _make(key, 16, 32)
"""

STYLES = {
    "accumulator and pl.when": (
        MATMUL_TASK,
        """
def body(a_ref, b_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)

def kernel(a, b):
    (m, k), n = a.shape, b.shape[1]
    return pl.pallas_call(
        body, grid=(m // 128, n // 128, k // 128),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)),
                  pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.bfloat16),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(a, b)
""",
    ),
    "scalar prefetch": (
        GATHER_TASK,
        """
def body(indices_ref, table_ref, o_ref):
    o_ref[...] = table_ref[...]

def kernel(indices, table):
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(indices.shape[0],),
        in_specs=[pl.BlockSpec((None, 8, 128), lambda i, idx: (idx[i], 0, 0))],
        out_specs=pl.BlockSpec((None, 8, 128), lambda i, idx: (i, 0, 0)),
    )
    shape = jax.ShapeDtypeStruct((indices.shape[0], 8, 128), table.dtype)
    return pl.pallas_call(body, grid_spec=spec, out_shape=shape)(indices, table)
""",
    ),
    "manual copies": (
        DOUBLE_TASK,
        """
def body(x_ref, o_ref, buffer, semaphore):
    def step(i, carry):
        here = pl.ds(i * 32, 32)
        copy = pltpu.make_async_copy(x_ref.at[here], buffer, semaphore)
        copy.start()
        copy.wait()
        buffer[...] = jnp.maximum(buffer[...] * 2, 0)
        pltpu.sync_copy(buffer, o_ref.at[here])
        return carry

    jax.lax.fori_loop(0, x_ref.shape[0] // 32, step, 0)

def kernel(x):
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        body, in_specs=[anywhere], out_specs=anywhere,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((32, x.shape[1]), x.dtype), pltpu.SemaphoreType.DMA],
    )(x)
""",
    ),
    "nested pipeline": (
        DOUBLE_TASK,
        """
def kernel(x):
    n, d = x.shape

    def inner(x_ref, o_ref):
        o_ref[...] = jnp.maximum(x_ref[...] * 2, 0)

    def body(x_ref, o_ref):
        block = pl.BlockSpec((32, d), lambda i: (i, 0))
        pltpu.emit_pipeline(inner, grid=(n // 32,), in_specs=[block], out_specs=[block])(
            x_ref, o_ref)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        body, in_specs=[anywhere], out_specs=anywhere,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
""",
    ),
    "two calls inside jit, scan and cond": (
        DOUBLE_TASK,
        """
def scale_body(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2

def relu_body(x_ref, o_ref):
    o_ref[...] = jnp.maximum(x_ref[...], 0)

def call(body, x):
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

@jax.jit
def scaled(x):
    return call(scale_body, x)

def kernel(x):
    y = jax.lax.scan(lambda c, row: (c, scaled(row)), 0, x.reshape(4, -1, x.shape[1]))[1]
    y = y.reshape(x.shape)
    return jax.lax.cond(y.shape[0] > 0, lambda v: call(relu_body, v), lambda v: v, y)
""",
    ),
}


@pytest.mark.parametrize("style", STYLES)
def test_every_style_is_captured_compiled_and_equal(executor: LocalExecutor, style: str) -> None:
    task_text, kernel = STYLES[style]
    task = task_of(task_text)
    traced = executor.submit(TraceRequest(task, "v6e", 1 << 28)).result()
    assert isinstance(traced, TraceReply), traced
    info = traced.info
    captured = executor.submit(
        CaptureRequest(
            HEADER + kernel, {}, "v6e", info.inputs, info.check_inputs, {}, {}, 60, 8 << 30
        )
    ).result()
    assert isinstance(captured, CaptureReply), captured
    assert captured.artifact.facts.outputs == info.outputs
    assert all(call.reaches_output for call in captured.artifact.facts.pallas_calls)
    artifact = captured.artifact
    request = CheckRequest(task, artifact.tpu, artifact.check, 3, info.tolerance)
    checked = executor.submit(request).result()
    assert isinstance(checked, CheckReply), checked
    assert checked.numerics.passed, checked
    compiled = executor.submit(CompileRequest(captured.artifact.tpu, "v6e")).result()
    assert isinstance(compiled, CompileReply), compiled
    assert compiled.memory["output"] >= 4


def test_footprint_and_traffic_follow_the_grid(executor: LocalExecutor) -> None:
    facts = {}
    for style in ("accumulator and pl.when", "manual copies", "scalar prefetch"):
        task_text, kernel = STYLES[style]
        info = executor.submit(TraceRequest(task_of(task_text), "v6e", 1 << 28)).result().info
        request = CaptureRequest(
            HEADER + kernel, {}, "v6e", info.inputs, info.check_inputs, {}, {}, 60, 8 << 30
        )
        facts[style] = executor.submit(request).result().artifact.facts.pallas_calls[0]
    matmul = facts["accumulator and pl.when"]
    block = 128 * 128 * 2
    assert matmul.block_bytes == 3 * block and matmul.scratch_bytes == 128 * 128 * 4
    assert matmul.moved_bytes == (64 + 64 + 16) * block
    manual = facts["manual copies"]
    assert manual.block_bytes == 0 and manual.scratch_bytes == 32 * 512 * 4
    assert manual.moved_bytes == 0
    assert facts["scalar prefetch"].moved_bytes == 0
    assert facts["scalar prefetch"].blocks == ((1, 8, 128), (1, 8, 128))
