"""What steers a kernel is computed from the program itself, and nothing more than that."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from maxkernel.schedule import ScalarOperand
from maxkernel.tasks import task_from_text
from maxkernel.worker.scalars import scalars_of
from maxkernel.worker.slices import slice_program

X = jax.ShapeDtypeStruct((1024, 512), jnp.float32)
SIZES = jax.ShapeDtypeStruct((4,), jnp.int32)


def add_rows(x, table):
    """A kernel whose blocks are chosen by a prefetched table (4,)."""

    def body(table_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + table_ref[0].astype(jnp.float32)

    return pl.pallas_call(
        body,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 512), lambda i, table: (table[i], 0))],
            out_specs=pl.BlockSpec((8, 512), lambda i, table: (i, 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((32, 512), x.dtype),
        name="add_rows",
    )(table, x)


def task_of(text):
    return task_from_text("task", "maxkernel", "task.py", {"task.py": text})


def sliced(function, *inputs):
    return slice_program(jax.export.export(jax.jit(function), platforms=["tpu"])(*inputs))


def test_operands_are_computed_without_the_large_tensors() -> None:
    def program(x, sizes):
        return add_rows(x * 2 @ jnp.ones((512, 512)), jnp.cumsum(sizes) - sizes)

    found = sliced(program, X, SIZES)
    assert found.inputs == (1,) and found.unknown == ()
    (call,) = found.calls
    assert call.name == "add_rows" and call.signature == ("s32[4]", "f32[1024,512]")
    values = found.run([np.array([5, 7, 0, 2], np.int32)])
    assert values[call.roots[0]].tolist() == [0, 5, 12, 12]


def test_a_factor_in_scalar_memory_is_known_too() -> None:
    def body(factor_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * factor_ref[0, 0]

    def program(x, factor):
        smem = pl.BlockSpec(memory_space=pltpu.SMEM)
        scaled = pl.pallas_call(
            body,
            in_specs=[smem, pl.BlockSpec(x.shape, lambda: (0, 0))],
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        )
        return scaled((factor * 2).reshape(1, 1), x @ jnp.ones((512, 512)))

    found = sliced(program, X, jax.ShapeDtypeStruct((1,), jnp.float32))
    assert found.inputs == (1,) and found.unknown == ()
    (call,) = found.calls
    assert list(call.roots) == [0]
    (value,) = (found.run([np.array([1.5], np.float32)])[root] for root in call.roots.values())
    assert value.tolist() == [[3.0]]


def test_sizes_of_groups_that_the_program_finds_are_known() -> None:
    def program(x, weights, scores):
        order = jnp.argsort(scores)
        sizes = jnp.sum(jax.nn.one_hot(scores, 4, dtype=jnp.int32), axis=0)
        return lax.ragged_dot(x[order] * 2, weights, sizes)

    weights = jax.ShapeDtypeStruct((4, 512, 128), jnp.float32)
    found = sliced(program, X, weights, jax.ShapeDtypeStruct((1024,), jnp.int32))
    assert found.inputs == (2,) and found.unknown == ()
    (call,) = found.calls
    assert (call.name, call.signature) == ("ragged-dot-metadata", ("s32[4]",))
    values = found.run([np.repeat(np.arange(4, dtype=np.int32), [1000, 0, 20, 4])])
    assert values[call.roots[0]].tolist() == [1000, 0, 20, 4]


def test_a_loop_hands_on_what_it_does_not_change() -> None:
    def program(x, sizes):
        def step(carry, _):
            return carry + add_rows(x, jnp.cumsum(sizes)), None

        return lax.scan(step, jnp.zeros((32, 512)), None, length=3)[0]

    found = sliced(program, X, SIZES)
    (call,) = found.calls
    assert found.inputs == (1,)
    assert found.run([np.array([1, 2, 3, 4], np.int32)])[call.roots[0]].tolist() == [1, 3, 6, 10]


def test_what_a_loop_changes_and_what_kernels_return_is_unknown() -> None:
    def program(x, sizes):
        def step(i, y):
            return y + add_rows(x, sizes + i)

        y = lax.fori_loop(0, 3, step, jnp.zeros((32, 512)))
        return add_rows(x, y[0, :4].astype(jnp.int32))

    found = sliced(program, X, SIZES)
    assert all(not call.roots for call in found.calls)
    assert any("changes from one execution" in text for text in found.unknown)
    assert any("result of a kernel" in text for text in found.unknown)


TASK = """
import jax, jax.numpy as jnp

def reference(x, sizes):
    return x * sizes[0]

def inputs(key):
    return jax.random.normal(key, (1024, 512)), jax.random.randint(key, (4,), 0, 99)
"""


def test_inputs_are_drawn_from_the_task_for_each_seed() -> None:
    def program(x, sizes):
        return add_rows(x, sizes[::-1])

    exported = jax.export.export(jax.jit(program), platforms=["tpu"])(X, SIZES)
    data = scalars_of(exported, task_of(TASK), (1, 2))
    assert data.notes == () and list(data.draws) == [1, 2]
    for seed, known in data.draws.items():
        drawn = jax.random.randint(jax.random.key(seed), (4,), 0, 99).tolist()
        assert known.parameters == {1: ScalarOperand((4,), "int32", tuple(drawn))}
        assert known.kernels[0].operands[0].values == tuple(reversed(drawn))


def test_a_task_that_fails_is_a_note() -> None:
    exported = jax.export.export(jax.jit(add_rows), platforms=["tpu"])(X, SIZES)
    broken = task_of(TASK.replace("def inputs", "def outputs"))
    data = scalars_of(exported, broken, (1,))
    assert data.draws == {} and "inputs" in data.notes[0]


LARGE = """
import jax

def reference(labels):
    return labels

def inputs(key):
    logits = jax.random.normal(key, (1 << 16, 1 << 16))
    return jax.numpy.argsort(logits)[:4, 0]
"""


def test_integers_that_take_too_much_memory_to_draw_are_a_note() -> None:
    exported = jax.export.export(jax.jit(lambda labels: labels), platforms=["tpu"])(SIZES)
    data = scalars_of(exported, task_of(LARGE), (1,))
    assert data.draws == {} and "takes" in data.notes[0] and "GiB" in data.notes[0]
