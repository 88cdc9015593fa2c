"""What is read from artifacts, and artifacts that lie or are broken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import mosaic_zoo
import mosaic_zoo_dma
import mosaic_zoo_memory
import numpy as np
import pytest
from jax import lax
from jax._src.pallas.mosaic import core as tpu_core
from jax._src.pallas.mosaic import lowering
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from mosaic_twin import CHIP, export, interpret, normal

from maxkernel.worker import mosaic
from maxkernel.worker.mosaic.payload import read_config

X = normal(64, 128)


def load(name: str) -> mosaic.Program:
    function, arrays = (mosaic_zoo.ZOO | mosaic_zoo_dma.ZOO | mosaic_zoo_memory.ZOO)[name]
    return mosaic.load(export(function, arrays))


def test_a_kernel_is_described() -> None:
    (kernel,) = load("matmul_bf16").kernels
    assert kernel.name == "matmul" and kernel.grid == (2, 2, 3)
    assert kernel.semantics == ("parallel", "parallel", "arbitrary")
    assert [w.bounds for w in kernel.windows] == [(128, 128)] * 3
    assert [str(t) for t in kernel.scratch] == ["memref<128x128xf32>"]
    assert kernel.spaces == ("vmem",) * 3 and kernel.histogram["tpu.matmul"] == 1


def test_the_rest_of_a_kernel_is_described() -> None:
    (prefetched,) = load("scalar_prefetch").kernels
    assert prefetched.prefetch == 1 and str(prefetched.prefetched[0]) == "tensor<6xi32>"
    (aliased,) = load("aliased").kernels
    assert aliased.aliases == {0: 0}
    (dynamic,) = load("dynamic_grid").kernels
    assert dynamic.dynamic_bounds == 1
    (manual,) = load("dma").kernels
    assert manual.spaces == ("any", "any") and manual.grid == ()


def test_compiler_parameters_are_kept() -> None:
    def call(x: Any) -> Any:
        return pl.pallas_call(
            lambda x, o: o.__setitem__(Ellipsis, x[...]),
            out_shape=mosaic_zoo.like(x),
            compiler_params=pltpu.CompilerParams(vmem_limit_bytes=1 << 24, has_side_effects=True),
            cost_estimate=pl.CostEstimate(flops=7, transcendentals=0, bytes_accessed=9),
        )(x)

    program = mosaic.load(export(call, [X]))
    (kernel,) = program.kernels
    assert kernel.config["scoped_memory_configs"][0]["size"] == 1 << 24
    assert kernel.config["cost_estimate"]["flops"] == 7
    assert any("side effects" in f for f in mosaic.gather_facts(program).forbidden)


def test_shares_of_the_work() -> None:
    facts = mosaic.gather_facts(load("matmul_bf16"))
    assert facts.flops_inside == 2 * 256 * 256 * 384 and facts.flops_outside == 0
    assert facts.reaching == {0} and not facts.forbidden and not facts.default_f32_matmuls

    def decoy(x: Any, y: Any) -> Any:
        return mosaic_zoo.softmax(x) + x @ y

    facts = mosaic.gather_facts(mosaic.load(export(decoy, [X, normal(128, 128)])))
    assert facts.flops_inside == 0 and facts.flops_outside == 2 * 64 * 128 * 128


def test_facts_in_the_shared_vocabulary() -> None:
    facts = mosaic.artifact_facts(load("matmul_bf16"))
    (call,) = facts.pallas_calls
    assert call.grid == (2, 2, 3) and call.blocks == ((128, 128),) * 3 and call.reaches_output
    assert call.block_bytes == 3 * 128 * 128 * 2 and call.scratch_bytes == 128 * 128 * 4
    assert call.moved_bytes == 2 * (256 * 384 * 2 * 2) + 256 * 256 * 2
    assert facts.outputs[0].shape == (256, 256) and not facts.forbidden


def test_errors_become_failures() -> None:
    def body(x: Any, o: Any, sem: Any) -> None:
        pl.semaphore_wait(sem, 1)
        o[...] = x[...]

    def call(x: Any) -> Any:
        return pl.pallas_call(
            body, out_shape=mosaic_zoo.like(x), scratch_shapes=[pltpu.SemaphoreType.REGULAR]
        )(x)

    with pytest.raises(mosaic.Deadlock) as caught:
        mosaic.run(mosaic.load(export(call, [X])), [X])
    failure = mosaic.failure_of(caught.value, source="test_mosaic_artifact.py")
    assert failure.kind == "hazard" and failure.detail == "Deadlock"
    assert failure.line == body.__code__.co_firstlineno + 1


def test_loops_multiply_the_work() -> None:
    def call(x: Any, y: Any) -> Any:
        return lax.scan(lambda c, _: (mosaic_zoo.matmul(c, y) @ y, None), x, None, length=5)[0]

    facts = mosaic.gather_facts(mosaic.load(export(call, [normal(128, 128)] * 2)))
    assert facts.flops_inside == facts.flops_outside == 5 * 2 * 128**3


def test_constants_are_counted() -> None:
    table = normal(64, 128)
    facts = mosaic.gather_facts(mosaic.load(export(lambda x: mosaic_zoo.softmax(x) + table, [X])))
    assert facts.constant_bytes >= table.nbytes
    assert mosaic.gather_facts(load("softmax")).constant_bytes < 100


@pytest.mark.parametrize(
    ("name", "function", "reaching", "influencing"),
    [
        ("used", lambda x: mosaic_zoo.softmax(x) + x, {0}, {0}),
        ("times zero", lambda x: mosaic_zoo.softmax(x) * 0.0 + x, set(), set()),
        ("minus itself", lambda x: (lambda y: y - y + x)(mosaic_zoo.softmax(x)), set(), set()),
        ("hidden zero", lambda x: mosaic_zoo.softmax(x) * (x - x) + x, set(), set()),
        ("zero at run time", lambda x: mosaic_zoo.softmax(x) * (x > 99) + x, {0}, set()),
        ("branch", lambda x: lax.cond(x[0, 0] > 99, mosaic_zoo.softmax, abs, x), {0}, set()),
    ],
)
def test_dead_kernels_are_seen(
    name: str, function: Any, reaching: set[int], influencing: set[int]
) -> None:
    program = mosaic.load(export(function, [X]))
    assert len(program.kernels) == 1
    assert mosaic.gather_facts(program).reaching == reaching
    assert mosaic.influence(program, [X]) == influencing


def test_donation_and_host_placement_are_seen() -> None:
    donated = jax.jit(mosaic_zoo.softmax, donate_argnums=0)
    with jax.sharding.use_abstract_mesh(CHIP):
        artifact = jax.export.export(donated, platforms=["tpu"])(X).serialize()
    assert mosaic.gather_facts(mosaic.load(artifact)).donated == (0,)

    from jax.experimental.compute_on import compute_on

    def hosted(x: Any) -> Any:
        with compute_on("device_host"):
            y = jnp.sort(x)
        return mosaic_zoo.softmax(x) + y

    found = mosaic.gather_facts(mosaic.load(export(hosted, [X]))).forbidden
    assert any("frontend_attributes" in f for f in found)


@contextmanager
def patched_lowering() -> Iterator[None]:
    """What a hostile candidate does to its own process: `exp` lowers to nothing for the TPU."""
    rules = lowering.lowering_rules[tpu_core.CoreType.TC]
    honest = rules[lax.exp_p]
    rules[lax.exp_p] = lambda ctx, x, **_: x
    try:
        yield
    finally:
        rules[lax.exp_p] = honest


def test_a_patched_lowering_does_not_fool_the_interpreter() -> None:
    def call(x: Any) -> Any:
        return pl.pallas_call(
            lambda x, o: o.__setitem__(Ellipsis, jnp.exp(x[...])), out_shape=mosaic_zoo.like(x)
        )(x)

    with patched_lowering():
        program = mosaic.load(export(call, [X]))
        (twin,) = interpret(call, [X])
    (found,) = mosaic.run(program, [X])
    np.testing.assert_allclose(twin, np.exp(X), rtol=1e-5)
    np.testing.assert_array_equal(found, X)


def test_backend_configurations_have_one_reading() -> None:
    call = {"body": "AAAA", "serialization_format": 1, "needs_layout_passes": True}
    body, rest = read_config(json.dumps({"custom_call_config": call}))
    assert body == b"\0\0\0" and rest == {"serialization_format": 1, "needs_layout_passes": True}
    twice = '{"custom_call_config": {"body": "AAAA", "body": "BBBB"}}'
    with pytest.raises(mosaic.BadArtifact, match="twice"):
        read_config(twice)
    with pytest.raises(mosaic.Unsupported, match="surprise"):
        read_config(json.dumps({"custom_call_config": call | {"surprise": 1}}))
    with pytest.raises(mosaic.BadArtifact):
        read_config("[]")


def test_only_tpu_artifacts_are_read() -> None:
    artifact = jax.export.export(jax.jit(lambda x: x + 1), platforms=["cpu"])(X).serialize()
    with pytest.raises(mosaic.BadArtifact, match="cpu"):
        mosaic.load(artifact)
    with pytest.raises(mosaic.BadArtifact):
        mosaic.load(b"\0" * 100)


def test_inputs_must_fit() -> None:
    program = load("softmax")
    with pytest.raises(mosaic.BadArtifact, match="input 0 is float32"):
        mosaic.run(program, [X[:1]])
    with pytest.raises(mosaic.BadArtifact, match="2 inputs for 1"):
        mosaic.run(program, [X, X])


def test_other_custom_calls_are_refused() -> None:
    def call(x: Any) -> Any:
        return mosaic_zoo.softmax(x) + jnp.linalg.qr(x.T)[0].T[:64]

    program = mosaic.load(export(call, [X]))
    assert any("Qr" in f or "custom call" in f for f in mosaic.gather_facts(program).forbidden)
    with pytest.raises(mosaic.Unsupported, match="custom call"):
        mosaic.run(program, [X])


def test_unsigned_arrays_around_a_kernel_are_read() -> None:
    table = np.arange(64, dtype=np.uint32).reshape(64, 1)

    def call(x: Any, key: Any) -> Any:
        noise = jax.random.bits(jax.random.wrap_key_data(key), x.shape) & 3
        return mosaic_zoo.softmax(x) + (jnp.asarray(table) ^ noise).astype(jnp.float32)

    key = np.array([1, 2], np.uint32)
    program = mosaic.load(export(call, [X, key]))
    assert not mosaic.same_up_to_sizes(program, program).structure
    assert mosaic.gather_facts(program).constant_bytes >= table.nbytes
    (found,) = mosaic.run(program, [X, key])
    (twin,) = interpret(call, [X, key])
    np.testing.assert_allclose(found, twin, rtol=1e-6)


def test_composite_operations_around_a_kernel_are_run() -> None:
    """`top_k` names a function of its own, which the pieces around kernels must keep."""

    def call(x: Any) -> Any:
        values, places = lax.top_k(mosaic_zoo.softmax(x), 3)
        return values, places

    found = mosaic.run(mosaic.load(export(call, [X])), [X])
    wanted = interpret(call, [X])
    np.testing.assert_allclose(np.asarray(found[0]), wanted[0], rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(found[1]), wanted[1])
