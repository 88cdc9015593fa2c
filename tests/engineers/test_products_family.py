"""What the products family emits equals the reference, however the reference is written."""

import ast

import jax
import jax.numpy as jnp
import pytest
from compiling import compile_for
from emitted_style import assert_clean
from graphs import task_info
from kernels import assert_equal, draw, sources

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.canon import canonicalise
from maxkernel.engineers.builtin.products.match import match
from maxkernel.judge.gate import check_gate

SMALL = {"block_m": 64, "block_n": 128, "out_m": 64, "out_n": 128, "out_k": 128}


def arrays(*shapes, dtype="bfloat16"):
    return tuple((shape, dtype) for shape in shapes)


def swiglu(x, gate, up, down):
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


def rewritten(d, b, t, a):
    """The same with other names and orders; two matrices lie transposed."""
    one = jnp.einsum("tk,mk->tm", t, a)
    two = jnp.einsum("tk,km->tm", t, b)
    return jnp.einsum("tm,nm->tn", two * (one * jax.nn.sigmoid(one)), d)


def summed(x, first, second, last):
    """Not the product of both, but the larger one; rows of another rank."""
    return jnp.maximum(x @ first, 0.5 * (x @ second)) @ last


CASES = [
    (swiglu, arrays((2, 50, 256), (256, 384), (256, 384), (384, 200))),
    (rewritten, arrays((200, 384), (256, 384), (70, 256), (384, 256))),
    (summed, arrays((130, 128), (128, 200), (128, 200), (200, 128))),
]


@pytest.mark.parametrize(("reference", "specs"), CASES)
def test_equals_the_reference(reference, specs):
    (source,) = sources(reference, *specs)
    assert check_gate(ast.parse(source)) is None
    assert_equal(reference, source, draw(specs, 1), 5e-2)
    assert_equal(reference, source, draw(specs, 2), 5e-2, **SMALL)


def gated(x, first, second):
    """Two products, joined, and nothing after."""
    return (x @ first) * jax.nn.sigmoid(x @ second)


def test_the_first_half_alone():
    specs = arrays((2, 30, 256), (256, 384), (256, 384))
    (source,) = sources(gated, *specs)
    assert_clean(source, line_length=88)
    assert_equal(gated, source, draw(specs, 1), 5e-2, block_m=64, block_n=128)


def test_ruff_agrees():
    for reference, specs in CASES:
        (source,) = sources(reference, *specs)
        assert_clean(source, line_length=88)


def test_one_source_serves_other_sizes():
    full = arrays((2, 4096, 8192), (8192, 28672), (8192, 28672), (28672, 8192))
    check = CASES[0][1]
    (source,) = sources(swiglu, *full)
    assert_equal(swiglu, source, draw(check, 0), 5e-2)


def two_inputs(x, gate, up, down):
    return (jax.nn.silu(x @ gate) * ((x + 1) @ up)) @ down


def followed(x, gate, up, down):
    return jnp.tanh(swiglu(x, gate, up, down))


@pytest.mark.parametrize("reference", [two_inputs, followed])
def test_other_programs_are_refused(reference):
    with pytest.raises(Unsupported):
        match(canonicalise(task_info(reference, *CASES[0][1])))


def test_the_tpu_compiler_takes_it():
    reference, specs = CASES[1]
    (source,) = sources(reference, *specs)
    compile_for(source, specs, "v6e", **SMALL)
