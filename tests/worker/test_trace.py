"""Tracing tasks: three formats read, faults of tasks named with their line."""

import textwrap

import pytest
from worker_samples import RMSNORM, task_of

from maxkernel.executor import LocalExecutor
from maxkernel.tasks import task_from_text
from maxkernel.types import Failure, Task, TaskInfo, Tolerance
from maxkernel.types.messages import (
    FailureReply,
    OracleReply,
    OracleRequest,
    TraceReply,
    TraceRequest,
)

LIMIT = 256 << 20


def traced(executor: LocalExecutor, task: Task) -> TaskInfo:
    reply = executor.submit(TraceRequest(task, "v6e", LIMIT)).result()
    assert isinstance(reply, TraceReply), reply
    return reply.info


def fault(executor: LocalExecutor, task: Task) -> Failure:
    reply = executor.submit(TraceRequest(task, "v6e", LIMIT)).result()
    assert isinstance(reply, FailureReply), reply
    return reply.failure


def test_our_format(executor: LocalExecutor) -> None:
    info = traced(executor, RMSNORM)
    assert info.task == RMSNORM.digest
    assert info.input_names == ("x", "scale")
    assert [str(spec) for spec in info.inputs] == ["bfloat16[4096,1024]", "bfloat16[1024]"]
    assert [str(spec) for spec in info.check_inputs] == ["bfloat16[64,256]", "bfloat16[256]"]
    assert str(info.outputs[0]) == "bfloat16[4096,1024]"
    assert info.tolerance == Tolerance(2e-2, 1e-2, "task")
    assert info.io_bytes == 2 * (4096 * 1024 + 1024 + 4096 * 1024)
    assert info.flops == 0
    assert len(info.reference_tpu) > 500
    ops = [node.op for node in info.graph.nodes]
    assert "rsqrt" in ops and "jit" not in ops
    literals = {value.literal for value in info.graph.values if value.literal is not None}
    assert 1024.0 in literals and any(abs(x - 1e-5) < 1e-9 for x in literals)


def test_full_size_is_never_allocated(executor: LocalExecutor) -> None:
    task = task_of("""
        import jax, jax.numpy as jnp
        def reference(x): return x + 1
        def inputs(key): return jax.random.normal(key, (1 << 20, 1 << 20))
        def check_inputs(key): return jax.random.normal(key, (8, 128))
    """)
    info = traced(executor, task)
    assert info.inputs[0].size == 1 << 40
    assert info.tolerance.source == "default"


def test_scalars_are_constants_of_the_program(executor: LocalExecutor) -> None:
    task = task_of("""
        import jax, jax.numpy as jnp
        def reference(x, width, y, eps=1.0):
            assert isinstance(width, int)
            return x[:, :width] + y[:width] * eps
        def inputs(key): return jnp.ones((64, 256)), 128, jnp.ones((256,)), 0.5
    """)
    info = traced(executor, task)
    assert info.statics == {1: 128, 3: 0.5}
    assert info.input_names == ("x", "y")
    assert str(info.outputs[0]) == "float32[64,128]"


JAXBENCH = """
import jax, jax.numpy as jnp
CONFIG = {"n": 128}
def create_inputs(dtype=jnp.float32):
    one, two = jax.random.split(jax.random.key(42))
    return jax.random.normal(one, (8, 128), dtype), jax.random.normal(two, (8, 128), dtype)
def workload(a, b):
    return a - b
"""

GOOGLE = {
    "reference.py": """
import jax
import jax.numpy as jnp
def computation(x, labels, width):
    return jnp.dot(x, x.T)[:, :width] + labels[:, None]
""",
    "inputs.py": """
import jax
import jax.numpy as jnp
import numpy as np
def get_inputs():
    x = jax.random.normal(jax.random.PRNGKey(0), (16, 32), dtype=jnp.bfloat16)
    labels = jnp.asarray(np.random.default_rng(7).integers(0, 9, 16).astype(np.int32))
    return [x, labels], [8]
""",
}


def test_jaxbench_format_in_bfloat16(executor: LocalExecutor) -> None:
    task = task_from_text("jb", "jaxbench", "task.py", {"task.py": JAXBENCH})
    info = traced(executor, task)
    assert [spec.dtype for spec in info.inputs] == ["bfloat16", "bfloat16"]
    assert info.tolerance == Tolerance(1e-2, 1e-2, "task")
    assert info.check_inputs == info.inputs


def test_google_format_with_static_arguments(executor: LocalExecutor) -> None:
    task = task_from_text("mk", "maxkernel-google", "reference.py", GOOGLE)
    info = traced(executor, task)
    assert info.statics == {2: 8}
    assert [str(spec) for spec in info.inputs] == ["bfloat16[16,32]", "int32[16]"]
    assert info.flops == 2 * 16 * 16 * 32


@pytest.mark.parametrize("format", ["jaxbench", "maxkernel-google"])
def test_fixed_seeds_are_replaced(executor: LocalExecutor, format: str) -> None:
    """Both of the task's streams change with the seed, numpy's too, and stay independent."""
    files = {"task.py": JAXBENCH} if format == "jaxbench" else GOOGLE
    task = task_from_text("s", format, next(iter(files)), files)  # type: ignore[arg-type]
    drawn: dict[int, OracleReply] = {}
    for seed in (1, 2, 1 << 40):
        reply = executor.submit(OracleRequest(task, seed)).result()
        assert isinstance(reply, OracleReply), reply
        drawn[seed] = reply
    for position in range(2):
        assert len({reply.inputs[position].data for reply in drawn.values()}) == 3
    if format == "jaxbench":
        assert drawn[1].inputs[0].data != drawn[1].inputs[1].data


def test_graph_keeps_loops_and_branches(executor: LocalExecutor) -> None:
    task = task_of("""
        import jax, jax.numpy as jnp
        from jax import lax
        def reference(x, w):
            def step(carry, row):
                return carry + jnp.dot(row, w), carry.sum()
            total, sums = lax.scan(step, jnp.zeros((4, 32)), x)
            total = lax.while_loop(lambda v: v.max() > 1e3, lambda v: v / 2, total)
            total = lax.cond(sums[0] > 0, lambda v: v @ w, jnp.sin, total)
            dead = jnp.exp(total)
            return jax.checkpoint(jax.nn.relu)(total), sums
        def inputs(key): return jnp.ones((6, 4, 32)), jnp.ones((32, 32))
    """)
    info = traced(executor, task)
    bodies = {node.op: set(node.bodies) for node in info.graph.nodes if node.bodies}
    assert bodies["scan"] == {"jaxpr"}
    assert bodies["while"] == {"cond_jaxpr", "body_jaxpr"}
    assert bodies["cond"] == {"branches.0", "branches.1"}
    assert all(node.op != "exp" for node in info.graph.nodes)
    assert info.flops == 6 * 2 * 4 * 32 * 32
    assert len(info.outputs) == 2


def test_work_counts_only_what_any_program_must_do(executor: LocalExecutor) -> None:
    task = task_of("""
        import jax, jax.numpy as jnp
        def reference(x, k, table, indices, unused):
            y = jax.lax.conv_general_dilated(
                x, k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            return y, table[indices]
        def inputs(key):
            return (jnp.ones((2, 8, 8, 4)), jnp.ones((3, 3, 4, 16)), jnp.ones((1000, 128)),
                    jnp.arange(8, dtype=jnp.int32), jnp.ones((512, 512)))
    """)
    info = traced(executor, task)
    assert info.flops == 2 * (2 * 6 * 6 * 16) * 3 * 3 * 4
    read = 2 * 8 * 8 * 4 + 3 * 3 * 4 * 16 + 8 * 128 + 8
    written = 2 * 6 * 6 * 16 + 8 * 128
    assert info.io_bytes == 4 * (read + written)
    certain = read - 8 * 128  # the indices may all name one row
    assert info.least_bytes == 4 * (certain + written)


def body(reference: str, made: str) -> Task:
    return task_of(
        "import jax, jax.numpy as jnp, numpy as np\n"
        + textwrap.dedent(reference)
        + f"\ndef inputs(key):\n    return {made}\n"
    )


PLAIN = "def reference(x): return x + 1"
ARRAY = "jnp.ones((8, 128))"
FAULTS = {
    "syntax": (task_of("def reference(x:"), "reference", "sample.py:1"),
    "missing import": (body("import nowhere\n" + PLAIN, ARRAY), "reference", "nowhere"),
    "exit on import": (body("raise SystemExit(1)", ARRAY), "reference", "SystemExit"),
    "no reference": (body("def other(x): return x", ARRAY), "reference", "reference(*inputs)"),
    "no inputs": (task_of(PLAIN), "inputs", "inputs(key)"),
    "reference raises": (
        body("def reference(x):\n    raise ValueError('not today')", ARRAY),
        "reference", "sample.py:3: the reference raised: ValueError: not today",
    ),
    "reference returns a dict": (body("def reference(x): return {'y': x}", ARRAY),
                                 "reference", "tuple of arrays"),
    "reference returns nothing": (body("def reference(x): pass", ARRAY), "reference", "arrays"),
    "complex reference": (body("def reference(x): return x * 1j", ARRAY), "reference", "complex"),
    "inputs raise": (body(PLAIN, "1 / 0"), "inputs", "ZeroDivisionError"),
    "no array": (body(PLAIN, "3"), "inputs", "no array"),
    "a dict of arrays": (body(PLAIN, "{'x': jnp.ones(8)}"), "inputs", "dict"),
    "None": (body(PLAIN, "(jnp.ones(8), None)"), "inputs", "NoneType"),
    "complex": (body(PLAIN, "jnp.ones(8, jnp.complex64)"), "inputs", "complex"),
    "float64 from jax": (body(PLAIN, "jnp.ones(8, jnp.float64)"), "inputs", "float64"),
    "float64 from numpy": (body(PLAIN, "np.ones(8)"), "inputs", "float64"),
    "zero size": (body(PLAIN, "jnp.ones((8, 0))"), "inputs", "no elements"),
    "a key": (body(PLAIN, "key"), "inputs", "no plain number"),
    "bad tolerance": (
        body(PLAIN + "\nTOLERANCE = {'atol': -1, 'rtol': 0}", ARRAY), "inputs", "TOLERANCE",
    ),
    "too large to check": (
        body(PLAIN, "jnp.ones((1 << 15, 1 << 13))"), "inputs", "check_inputs",
    ),
    "other check inputs": (
        body(PLAIN + "\ndef check_inputs(key): return jnp.ones(8, jnp.bfloat16)", ARRAY),
        "inputs", "check_inputs gives",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_a_task_are_named(executor: LocalExecutor, name: str) -> None:
    task, kind, words = FAULTS[name]
    failure = fault(executor, task)
    assert (failure.stage, failure.kind) == ("trace", kind), failure
    assert words in failure.message + failure.advice, failure
    assert "Traceback" not in failure.message


def test_a_task_may_import_its_own_files_and_leaves_nothing_behind(
    executor: LocalExecutor,
) -> None:
    def task(value: int) -> Task:
        files = {
            "sample.py": "import helper\nimport jax.numpy as jnp\n"
            "def reference(x): return x + helper.VALUE\n"
            "def inputs(key): return jnp.ones((8, 128))\n",
            "helper.py": f"VALUE = {value}\n",
        }
        return task_from_text(f"t{value}", "maxkernel", "sample.py", files)

    for value in (1, 2):
        info = traced(executor, task(value))
        literals = [v.literal for v in info.graph.values if v.literal is not None]
        assert literals == [float(value)]
    escaping = task_from_text("e", "maxkernel", "a.py", {"a.py": "", "../b.py": "x = 1"})
    assert "leaves its folder" in fault(executor, escaping).message
