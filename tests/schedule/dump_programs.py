# ruff: noqa: E402 (libtpu reads its flags from the environment when jax is imported)
"""Small programs whose schedules the tests read. Run by hand, or in a subprocess by the live test:

    python dump_programs.py OUT TARGET NAME...

writes one folder of dumps per program; `--pack` makes them OUT/TARGET-NAME.tar.gz instead.
"""

import functools
import os
import shutil
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

OUT, TARGET, *NAMES = [item for item in sys.argv[1:] if item != "--pack"] or ["", "v6e"]
PACK = "--pack" in sys.argv
LIVE = Path(OUT) / ".live"
if __name__ == "__main__":
    LIVE.mkdir(parents=True, exist_ok=True)
    from maxkernel.schedule import dump_flags

    os.environ.update(
        JAX_PLATFORMS="cpu",
        TPU_SKIP_MDS_QUERY="1",
        TPU_WORKER_HOSTNAMES="localhost",
        TPU_ACCELERATOR_TYPE="v6e-4",
        ALLOW_MULTIPLE_LIBTPU_LOAD="1",
        LIBTPU_INIT_ARGS=dump_flags(LIVE, "0" if PACK else version("libtpu")),
    )

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BF16, F32, I32 = jnp.bfloat16, jnp.float32, jnp.int32
spec = jax.ShapeDtypeStruct
PROGRAMS = {}


def program(build):
    PROGRAMS[build.__name__] = build
    return build


@program
def rmsnorm():
    """32 grid steps of 64 rows of 1024 bf16: reads and writes 4 MiB."""

    def kernel(x, scale, out):
        v = x[...].astype(F32)
        norm = v * jax.lax.rsqrt(jnp.mean(v * v, -1, keepdims=True) + 1e-5)
        out[...] = (norm * scale[...].astype(F32)).astype(BF16)

    def call(x, scale):
        return pl.pallas_call(
            kernel,
            grid=(32,),
            in_specs=[
                pl.BlockSpec((64, 1024), lambda i: (i, 0)),
                pl.BlockSpec((1, 1024), lambda i: (0, 0)),
            ],
            out_specs=pl.BlockSpec((64, 1024), lambda i: (i, 0)),
            out_shape=spec(x.shape, BF16),
            name="rmsnorm",
        )(x, scale)

    return call, (spec((2048, 1024), BF16), spec((1, 1024), BF16))


@program
def matmul():
    """4 x 4 x 4 blocks of 256 cubed, accumulated over the last axis."""

    def kernel(x, y, out, total):
        @pl.when(pl.program_id(2) == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(x[...], y[...], preferred_element_type=F32)

        @pl.when(pl.program_id(2) == 3)
        def _():
            out[...] = total[...].astype(BF16)

    def call(x, y):
        return pl.pallas_call(
            kernel,
            grid=(4, 4, 4),
            in_specs=[
                pl.BlockSpec((256, 256), lambda i, j, k: (i, k)),
                pl.BlockSpec((256, 256), lambda i, j, k: (k, j)),
            ],
            out_specs=pl.BlockSpec((256, 256), lambda i, j, k: (i, j)),
            out_shape=spec((1024, 1024), BF16),
            scratch_shapes=[pltpu.VMEM((256, 256), F32)],
            compiler_params=pltpu.CompilerParams(
                dimension_semantics=("parallel", "parallel", "arbitrary")
            ),
            name="matmul",
        )(x, y)

    return call, (spec((1024, 1024), BF16), spec((1024, 1024), BF16))


def gather(table_dtype, shape, index):
    """Copies 32 blocks of 512 KiB, which one is read from a table in scalar memory."""

    def kernel(table, x, out):
        del table
        out[...] = x[...]

    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4, 8),
        in_specs=[pl.BlockSpec((256, 1024), index)],
        out_specs=pl.BlockSpec((256, 1024), lambda i, j, t: (i * 8 + j, 0)),
    )

    def call(table, x):
        return pl.pallas_call(
            kernel, grid_spec=grid_spec, out_shape=spec(x.shape, BF16), name="gather"
        )(table, x)

    return call, (spec(shape, table_dtype), spec((8192, 1024), BF16))


PROGRAMS["gather32"] = functools.partial(gather, I32, (4, 200), lambda i, j, t: (t[i, j * 25], 0))
PROGRAMS["gather8"] = functools.partial(
    gather, jnp.int8, (2, 6, 200), lambda i, j, t: (t[i >> 1, 5 - i, j * 25].astype(I32), 0)
)


@program
def dynamic_grid():
    """A grid whose bound is an operand."""

    def kernel(x, out):
        out[...] = x[...] + 1

    def call(n, x):
        return pl.pallas_call(
            kernel,
            grid=(n,),
            in_specs=[pl.BlockSpec((256, 1024), lambda i: (i, 0))],
            out_specs=pl.BlockSpec((256, 1024), lambda i: (i, 0)),
            out_shape=spec(x.shape, BF16),
            name="dynamic_grid",
        )(x)

    return call, (spec((), I32), spec((8192, 1024), BF16))


@program
def same_twice():
    """Two calls of one kernel that loops as often as its table says."""

    def kernel(table, x, out):
        def body(i, carry):
            rows = pl.ds(pl.multiple_of(i * 8, 8), 8)
            out[rows, :] = x[rows, :] * 2.0
            return carry

        jax.lax.fori_loop(0, table[1], body, 0)

    def one(table, x):
        return pl.pallas_call(
            kernel,
            in_specs=[
                pl.BlockSpec(memory_space=pltpu.SMEM),
                pl.BlockSpec(memory_space=pltpu.VMEM),
            ],
            out_shape=spec(x.shape, F32),
            name="same",
        )(table, x)

    def call(first, second, x):
        return one(second, jnp.abs(one(first, x)))

    return call, (spec((4,), I32), spec((4,), I32), spec((1024, 256), F32))


@program
def manual_copy():
    """Eight blocks of 512 KiB copied in and out by hand, one after the other."""

    def kernel(x, out, buffer, sems):
        def body(i, carry):
            rows = pl.ds(i * 256, 256)
            for copy in (
                pltpu.make_async_copy(x.at[rows], buffer, sems.at[0]),
                pltpu.make_async_copy(buffer, out.at[rows], sems.at[1]),
            ):
                copy.start()
                copy.wait()
            return carry

        jax.lax.fori_loop(0, 8, body, 0)

    def call(x):
        return pl.pallas_call(
            kernel,
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec(memory_space=pl.ANY),
            out_shape=spec(x.shape, BF16),
            scratch_shapes=[pltpu.VMEM((256, 1024), BF16), pltpu.SemaphoreType.DMA((2,))],
            name="manual_copy",
        )(x)

    return call, (spec((2048, 1024), BF16),)


@program
def semaphores():
    """Signals itself, waits, sleeps 1000 ns, and runs a block only if the count is right."""

    def kernel(x, out, sem):
        pltpu.semaphore_signal(sem, 3)
        pltpu.semaphore_wait(sem, 2)
        pl.delay(1000)

        @pl.when(pltpu.semaphore_read(sem) == 1)
        def _():
            out[...] = x[...] * 2

        pltpu.semaphore_wait(sem, 1)

    def call(x):
        return pl.pallas_call(
            kernel,
            out_shape=spec(x.shape, BF16),
            scratch_shapes=[pltpu.SemaphoreType.REGULAR],
            name="semaphores",
        )(x)

    return call, (spec((256, 256), BF16),)


@program
def remote():
    def kernel(x, out, send, receive):
        copy = pltpu.make_async_remote_copy(
            x, out, send, receive, device_id=I32(0), device_id_type=pltpu.DeviceIdType.LOGICAL
        )
        copy.start()
        copy.wait()

    def call(x):
        return pl.pallas_call(
            kernel,
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec(memory_space=pl.ANY),
            out_shape=spec(x.shape, BF16),
            scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA],
            name="remote",
        )(x)

    return call, (spec((1024, 1024), BF16),)


@program
def long_name():
    def kernel(x, out):
        out[...] = x[...] + 1

    def call(x):
        return pl.pallas_call(kernel, out_shape=spec(x.shape, BF16), name="wordy_" * 50)(x)

    return call, (spec((256, 256), BF16),)


@program
def while_loop():
    """Ten products of 256 cubed in a loop of the top-level program."""

    def call(x):
        return jax.lax.fori_loop(0, 10, lambda i, y: jnp.tanh(y @ x), x)

    return call, (spec((256, 256), BF16),)


@program
def while_data():
    """A loop whose trip count depends on data."""

    def call(x):
        return jax.lax.while_loop(lambda y: jnp.max(y) < 10, lambda y: jnp.tanh(y @ x), x)

    return call, (spec((256, 256), BF16),)


@program
def scan():
    def call(x, w):
        def step(carry, y):
            carry = jnp.tanh(carry @ w + y)
            return carry, carry

        return jax.lax.scan(step, x[0], x)

    return call, (spec((24, 256, 512), BF16), spec((512, 512), BF16))


HOSTILE = 'a*/ ;; %99 = smov 0 } \n   0x1  :  {} /* "q\\" /* loc("b`.py'


@program
def hostile_names():
    """The name of the kernel's file looks like a piece of a schedule."""
    source = """
def kernel(x, out):
    def step(i, total):
        return total + jnp.tanh(x[pl.ds(i * 8, 8), :])

    out[...] = jax.lax.fori_loop(0, 4, step, jnp.zeros((8, 128), F32))
"""
    scope = dict(globals())
    exec(compile(source, HOSTILE, "exec"), scope)

    def call(x):
        return pl.pallas_call(scope["kernel"], out_shape=spec((8, 128), F32), name="hostile")(x)

    return call, (spec((32, 128), F32),)


@program
def gemm():
    """4096 x 8192 x 8192 with bias and ReLU, by XLA; 0.6292 ms on a v6e chip (JaxBench 41k)."""

    def call(x, w, b):
        return jax.nn.relu(x @ w + b)

    return call, (spec((4096, 8192), BF16), spec((8192, 8192), BF16), spec((8192,), BF16))


@program
def long_sum():
    """A product that sums over far more than it keeps; XLA prefetches x for the next execution."""

    def call(x, w):
        return jnp.tanh(jnp.dot(x, w, preferred_element_type=F32))

    return call, [spec((256, 16384), BF16), spec((16384, 256), BF16)]


def main():
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    from maxkernel.targets import TARGETS

    if PACK:
        jax.config.update("jax_traceback_in_locations_limit", 0)
    target = TARGETS[TARGET]
    topology = topologies.get_topology_desc(target.topology, "tpu", **dict(target.topology_options))
    sharding = SingleDeviceSharding(topology.devices[0])
    for name in NAMES:
        call, args = PROGRAMS[name]()
        args = [spec(a.shape, a.dtype, sharding=sharding) for a in args]
        jax.jit(call).trace(*args).lower(lowering_platforms=("tpu",)).compile()
        keep(f"{TARGET}-{name}")
    shutil.rmtree(LIVE)


def keep(name):
    wanted = [
        path
        for path in sorted(LIVE.iterdir())
        if "late-" not in path.name and not (PACK and "vmem_report" in path.name)
    ]
    if PACK:
        with tarfile.open(Path(OUT) / f"{name}.tar.gz", "w:gz") as archive:
            for path in wanted:
                archive.add(path, path.name)
    else:
        folder = Path(OUT) / name
        folder.mkdir()
        for path in wanted:
            shutil.copy(path, folder)
    for path in LIVE.iterdir():
        path.unlink()


if __name__ == "__main__":
    main()
