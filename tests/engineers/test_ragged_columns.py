"""Statistics of rows whose columns no block divides, and bounds that follow from a size."""

import jax
import jax.numpy as jnp
import pytest
from graphs import task_info
from kernels import TEAM, assert_equal, draw, sources
from msgspec.structs import replace

from maxkernel.targets import get_target
from maxkernel.types import ArraySpec

BF16, F32 = "bfloat16", "float32"


def cross_entropy(h, w, labels):
    """The last 64 rows of w are no tokens."""
    logits = jnp.einsum("th,vh->tv", h, w, preferred_element_type=jnp.float32)
    token = jnp.arange(w.shape[0]) < w.shape[0] - 64
    normaliser = jax.nn.logsumexp(jnp.where(token, logits, -jnp.inf), axis=-1)
    picked = jnp.take_along_axis(logits, jnp.maximum(labels, 0)[:, None], axis=-1)[:, 0]
    return jnp.where(labels >= 0, normaliser - picked, 0.0), normaliser


def least_and_sum(x, w, bias):
    t = x @ w + bias
    return t.min(-1), t.sum(-1), t.mean(-1)


def specs(m, n, k):
    return ((m, k), BF16), ((n, k), BF16), ((m,), "int32")


def test_vocabulary_that_no_block_divides():
    full, check = specs(4096, 262208, 5376), specs(72, 2112, 128)
    info = task_info(cross_entropy, *full)
    info = replace(info, check_inputs=tuple(ArraySpec(s, d) for s, d in check))
    chip = get_target("v6e")
    (plan,) = TEAM.planner.plan(info, chip, ())
    source = TEAM.implementer.implement(info, plan, chip)
    assert "n - 64" in source
    assert_equal(cross_entropy, source, draw(check, 0, high=2048), block_m=32, block_n=512)


@pytest.mark.parametrize(("n", "masked"), [(1000, True), (1536, False)])
def test_masks_only_where_needed(n, masked):
    given = ((40, 72), F32), ((72, n), F32), ((n,), F32)
    (source,) = sources(least_and_sum, *given, only="running")
    assert ("inside" in source) == masked
    assert_equal(least_and_sum, source, draw(given, n), block_m=32, block_n=256)
