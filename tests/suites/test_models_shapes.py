"""Every model workload traces at full size with the shapes of its model, and draws what it says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.nn import logsumexp
from suite_tasks import draw, module, output_shapes, shapes, specs

from maxkernel import suites

OUTPUTS = {
    "w01": ["bfloat16[1,8192,32,128]"],
    "w02": ["bfloat16[32,64,128]"],
    "w03": ["bfloat16[4096,64,128]"],
    "w04": ["bfloat16[1,4096,64,128]"],
    "w05": ["bfloat16[1,8192,32,128]"],
    "w05b": ["bfloat16[1,8192,32,128]"],
    "w06": ["bfloat16[1,8192,32,128]"],
    "w07": ["bfloat16[1,4096,64,64]"],
    "w07b": ["bfloat16[1,4096,64,64]"],
    "w08": ["bfloat16[1,4096,128,128]"],
    "w09": ["bfloat16[64,128,128]"],
    "w09b": ["bfloat16[64,128,128]"],
    "w10": ["bfloat16[1,2048,64,512]"],
    "w11": ["bfloat16[1,8192,32,128]", "float32[1,32,128,128]"],
    "w12": ["bfloat16[64,32,128]", "float32[64,32,128,128]"],
    "w13": ["bfloat16[1,4096,80,64]", "float32[1,80,64,128]"],
    "w14": ["bfloat16[4096,4096]"],
    "w15": ["bfloat16[4096,7168]"],
    "w16": ["bfloat16[1024,2880]"],
    "w16b": ["bfloat16[1024,2880]"],
    "w17": ["bfloat16[16384,4096]"],
    "w18": ["bfloat16[4096,16384]"],
    "w19": ["bfloat16[8192,16384]", "bfloat16[8192,16384]"],
    "w20": ["bfloat16[1,8192,64,128]", "bfloat16[1,8192,8,128]"],
    "w21": ["float32[8192]", "float32[8192]"],
    "w22": ["float32[4096]", "float32[4096]"],
    "w22b": ["float32[4096]", "float32[4096]"],
    "w23": ["bfloat16[4096,28672]"],
    "w24": ["bfloat16[4096,4096]"],
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_full_size_outputs(name: str) -> None:
    task = module("models", name)
    assert specs(output_shapes(task.reference, shapes(task.inputs))) == OUTPUTS[name]


@pytest.mark.parametrize("name", OUTPUTS)
def test_check_size_has_the_same_form(name: str) -> None:
    task = module("models", name)
    full, check = shapes(task.inputs), shapes(task.check_inputs)
    assert len(full) == len(check)
    for a, b in zip(full, check, strict=True):
        assert type(a) is type(b)
        if not isinstance(a, int):
            assert (a.dtype, a.ndim) == (b.dtype, b.ndim)
            assert b.size <= a.size
    outputs = [specs(output_shapes(task.reference, values)) for values in (full, check)]
    assert [s.partition("[")[0] for s in outputs[0]] == [s.partition("[")[0] for s in outputs[1]]


def test_every_workload_is_covered() -> None:
    assert [name.partition("_")[0] for name in suites.names("models")] == list(OUTPUTS)


@pytest.mark.parametrize(("name", "used"), [("w02", 3), ("w09", 5), ("w09b", 5)])
def test_pages_past_a_context_hold_large_values(name: str, used: int) -> None:
    inputs = draw(module("models", name).check_inputs, 4)
    pages, lengths, table = inputs[used - 1], np.asarray(inputs[used]), np.asarray(inputs[used + 1])
    page = pages.shape[1]
    for row, length in zip(table, lengths, strict=True):
        needed = -(-length // page)
        assert len(set(row[:needed].tolist())) == needed
        assert all((pages[p] == 100).all() for p in row[needed:])
        assert not any((pages[p] == 100).all() for p in row[:needed])


def test_serving_steps_fill_the_buffer() -> None:
    for seed in range(3):
        _, _, lens, _, ends = map(np.asarray, draw(module("models", "w03").check_inputs, seed))
        counts = np.diff(ends)[: np.count_nonzero(lens)]
        assert 251 <= ends[len(counts)] <= 256
        assert len(counts) < len(lens)
        assert (counts > 0).all()
        assert (lens[: len(counts)] >= counts).all()
        assert (lens <= 256).all()
        assert not lens[len(counts) :].any()


def test_experts_are_loaded_unevenly() -> None:
    x, router, *_ = draw(module("models", "w14").check_inputs)
    logits = jnp.einsum("te,en->tn", x.astype(jnp.float32), router.astype(jnp.float32))
    ranks = np.argsort(-np.asarray(logits), axis=1)
    load = np.bincount(ranks[:, :4].ravel(), minlength=16)
    assert load.max() > 2 * load.mean()
    ordered = np.take_along_axis(np.asarray(logits), ranks, 1)
    assert (ordered[:, 3] - ordered[:, 4]).min() > 1e-3


def test_sorted_rows_fill_the_groups() -> None:
    sizes = np.asarray(draw(module("models", "w17").check_inputs)[2])
    assert sizes.sum() == 512
    assert {0, 1} <= set(sizes.tolist())


def test_a_missing_cap_of_the_logits_shows() -> None:
    task = module("models", "w22b")
    h, w, labels = draw(task.check_inputs)
    h, labels = h[:32], labels[:32]
    logits = h.astype(jnp.float32) @ w.astype(jnp.float32).T
    plain = np.asarray(logsumexp(logits, axis=-1))
    _, normaliser = task.reference(h, w, labels)
    assert np.abs(plain - normaliser).max() > 1.5 * task.TOLERANCE["atol"]


def test_codes_and_scales_hold_the_weights_that_were_drawn() -> None:
    task = module("models", "w16b")
    packed, scale = task.quantised(jax.random.key(0), 2, (64, 48), 0.1)
    assert (packed.shape, scale.shape) == ((2, 32, 48), (2, 2, 48))
    found = np.asarray(task.dequantised(packed, scale, jnp.float32))
    top = np.abs(found).reshape(2, 2, 32, 48).max(axis=2)
    power = np.exp2(np.asarray(scale).astype(np.float64) - 127)
    assert set((top / power).ravel().tolist()) <= {4.0, 6.0}, "a block's largest value fills it"
    assert 0.08 < found.std() < 0.2
    assert len(np.unique(np.asarray(scale))) > 3
