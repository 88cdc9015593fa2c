"""Arithmetic of the products in an operator graph."""

import jax.numpy as jnp
import pytest
from graphs import task_info
from jax import lax

from maxkernel.engineers.builtin.lines import fitted
from maxkernel.engineers.builtin.regions.find import product_flops


def flops(reference, *shapes):
    graph = task_info(reference, *((shape, "float32") for shape in shapes)).graph
    ops = ("dot_general", "conv_general_dilated")
    return [product_flops(graph, i) for i, n in enumerate(graph.nodes) if n.op in ops]


def test_products_and_convolutions_of_every_kind():
    def conv(x, w):
        return lax.conv(x, w, (1, 1), "VALID")

    def transposed(x, w):
        """x: (B, C, H, W); w: (C, O, 3, 3), as torch keeps it."""
        w = jnp.flip(w, (2, 3))
        numbers = lax.ConvDimensionNumbers((0, 1, 2, 3), (1, 0, 2, 3), (0, 1, 2, 3))
        return lax.conv_general_dilated(
            x, w, (1, 1), [(2, 2)] * 2, lhs_dilation=(2, 2), dimension_numbers=numbers
        )

    assert flops(jnp.dot, (4, 8), (8, 16)) == [2 * 4 * 16 * 8]
    assert flops(conv, (2, 3, 10, 10), (5, 3, 3, 3)) == [2 * (2 * 5 * 8 * 8) * 3 * 9]
    out = 2 * 5 * 21 * 21
    assert flops(transposed, (2, 3, 10, 10), (3, 5, 3, 3)) == [pytest.approx(2 * out * 3 * 9 / 4)]


def test_long_statements_are_broken_in_their_last_call():
    line = "value = jnp.stack([first_of_all, second_of_all], axis=2)"
    line += ".reshape(one.shape[0], -1, two.size)"
    assert fitted(line, 4) == (
        "value = jnp.stack([first_of_all, second_of_all], axis=2).reshape(\n"
        "    one.shape[0],\n    -1,\n    two.size,\n)"
    )
    assert fitted("short = jnp.exp(x)", 4) == "short = jnp.exp(x)"
