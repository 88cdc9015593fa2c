"""Checks: right kernels pass, wrong ones fail for the right reason, inputs are fresh."""

import numpy as np
import pytest
from worker_samples import (
    CHECK_ROWS,
    RMSNORM,
    RMSNORM_KERNEL,
    capture_of,
    pointless,
    rowwise,
    task_of,
)

from maxkernel.executor import LocalExecutor
from maxkernel.types import ArraySpec, Numerics, Task, Tolerance
from maxkernel.types.messages import (
    CaptureReply,
    CheckReply,
    CheckRequest,
    FailureReply,
    OracleReply,
    OracleRequest,
)

TOLERANCE = Tolerance(2e-2, 1e-2, "task")


def check_of(
    executor: LocalExecutor,
    source: str,
    seed: int = 1,
    task: Task = RMSNORM,
    tolerance: Tolerance = TOLERANCE,
    **changes: object,
) -> CheckRequest:
    """A request to check what capture makes of `source`."""
    reply = executor.submit(capture_of(source, **changes)).result()
    assert isinstance(reply, CaptureReply), reply
    return CheckRequest(task, reply.artifact.tpu, reply.artifact.check, seed, tolerance)


def numerics(
    executor: LocalExecutor, source: str, seed: int = 1, tolerance: Tolerance = TOLERANCE
) -> Numerics:
    reply = executor.submit(check_of(executor, source, seed, tolerance=tolerance)).result()
    assert isinstance(reply, CheckReply), reply
    return reply.numerics


def test_a_right_kernel_passes_on_every_seed(executor: LocalExecutor) -> None:
    results = [numerics(executor, RMSNORM_KERNEL, seed) for seed in (1, 2, 1 << 50)]
    assert all(result.passed and result.oracle == "float64" for result in results)
    assert len({result.outputs[0].rms for result in results}) == 3
    (output,) = results[0].outputs
    assert 0 < output.reference_rms < 5e-3 and output.elements == 64 * 256
    assert output.rms_allowance is not None and output.rms < output.rms_allowance
    assert numerics(executor, RMSNORM_KERNEL, 1) == results[0]


WRONG = {
    "zeros": "o_ref[...] = jnp.zeros_like(x_ref)",
    "no scale": "x = x_ref[...].astype(jnp.float32)\n"
    "o_ref[...] = (x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True))).astype(o_ref.dtype)",
    "last rows unwritten": "o_ref[:16] = x_ref[:16]",
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernels_fail(executor: LocalExecutor, name: str) -> None:
    result = numerics(executor, rowwise(WRONG[name]))
    assert not result.passed
    assert result.outputs[0].excess > 1


def test_a_loose_tolerance_does_not_let_zeros_pass(executor: LocalExecutor) -> None:
    loose = Tolerance(100.0, 0.0, "task")
    result = numerics(executor, rowwise("o_ref[...] = jnp.zeros_like(x_ref)"), tolerance=loose)
    assert not result.passed
    assert result.outputs[0].max_abs < 100
    assert numerics(executor, RMSNORM_KERNEL, tolerance=loose).passed


def test_nonfinite_values_are_counted(executor: LocalExecutor) -> None:
    result = numerics(executor, rowwise("o_ref[...] = x_ref[...] * jnp.inf"))
    assert not result.passed
    assert result.outputs[0].nonfinite == 64 * 256


def test_an_output_of_another_shape_is_an_output_failure(executor: LocalExecutor) -> None:
    for then in ("return x[:1]", "return x.astype(jnp.float32)", "return x, x"):
        reply = executor.submit(check_of(executor, pointless("", then))).result()
        assert isinstance(reply, FailureReply)
        assert reply.failure.kind == "output_spec"
        assert "bfloat16[64,256]" in reply.failure.message
    other = check_of(executor, pointless(""), check_inputs=(CHECK_ROWS[0],) * 2)
    reply = executor.submit(other).result()
    assert isinstance(reply, FailureReply) and "takes" in reply.failure.message


def test_garbage_is_refused(executor: LocalExecutor) -> None:
    reply = executor.submit(CheckRequest(RMSNORM, b"garbage", b"", 1, TOLERANCE)).result()
    assert isinstance(reply, FailureReply)
    assert reply.failure.stage == "check"


ARGMAX = task_of("""
    import jax, jax.numpy as jnp
    def reference(x): return jnp.argmax(x, -1).astype(jnp.int32)
    def inputs(key): return jax.random.normal(key, (64, 256), jnp.bfloat16)
""")


def integer_check(executor: LocalExecutor, expression: str) -> bool:
    inputs = (ArraySpec((64, 256), "bfloat16"),)
    source = f"import jax, jax.numpy as jnp\ndef kernel(x):\n    return {expression}\n"
    request = check_of(executor, source, 5, ARGMAX, inputs=inputs, check_inputs=inputs)
    reply = executor.submit(request).result()
    assert isinstance(reply, CheckReply), reply
    return reply.numerics.passed


def test_integers_must_match(executor: LocalExecutor) -> None:
    assert integer_check(executor, "jnp.argmax(x.astype(jnp.float32), -1).astype(jnp.int32)")
    assert not integer_check(executor, "jnp.argmax(x, -1).astype(jnp.int32).at[3].add(1)")


def values(reply: object) -> list[np.ndarray]:
    assert isinstance(reply, OracleReply), reply
    return [
        np.frombuffer(array.data, array.spec.dtype).reshape(array.spec.shape)
        for array in reply.oracle
    ]


def test_oracle_is_the_float64_result(executor: LocalExecutor) -> None:
    import ml_dtypes

    reply = executor.submit(OracleRequest(RMSNORM, 9)).result()
    (oracle,) = values(reply)
    x, scale = (
        np.frombuffer(array.data, ml_dtypes.bfloat16).reshape(array.spec.shape).astype(np.float64)
        for array in reply.inputs
    )
    eps = np.float64(np.float32(1e-5))
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * scale
    np.testing.assert_allclose(oracle, expected, rtol=1e-12)
    assert oracle.dtype == np.float64 and reply.precision == "float64"


def drifting(line: str) -> Task:
    return task_of(f"""
        import jax, jax.numpy as jnp, numpy as np
        def reference(x): return x + 1
        def inputs(key):
            n = int(jax.random.randint(key, (), 8, 100))
            return {line}
        def check_inputs(key): return inputs(key)
    """)


def test_inputs_that_need_concrete_values_are_drawn_eagerly(executor: LocalExecutor) -> None:
    task = drifting("jax.random.normal(key, (8, 128)) * n")
    one, two = (executor.submit(OracleRequest(task, seed)).result() for seed in (1, 2))
    assert isinstance(one, OracleReply) and isinstance(two, OracleReply)
    assert one.inputs[0].data != two.inputs[0].data


def test_shapes_that_depend_on_the_seed_are_refused(executor: LocalExecutor) -> None:
    replies = [
        executor.submit(OracleRequest(drifting("jnp.ones((n, 128))"), seed)).result()
        for seed in range(4)
    ]
    refused = [reply for reply in replies if isinstance(reply, FailureReply)]
    assert refused and refused[0].failure.kind == "inputs"
    assert "another seed" in refused[0].failure.message
