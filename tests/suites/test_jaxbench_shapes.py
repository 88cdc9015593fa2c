"""Every JaxBench reference traces at full size in every edition, with the published shapes."""

import jax
import numpy as np
import pytest
from suite_tasks import draw, module, output_shapes, shapes, specs

from maxkernel import suites

OUTPUTS = {
    "1p": "4,64,4096,128",
    "2p": "4,4096,128,128",
    "3p": "4,2048,7168",
    "4p": "4,64,4096,128",
    "5p": "4,64,4096,128",
    "6p": "64,64,128",
    "7p": "4096,64,128",
    "8p": "8192,28672",
    "9p": "2,4096,8192",
    "10p": "2,4096,4096",
    "11p": "32768,1536",
    "12p": "8,4096,8192",
    "13p": "",
    "14p": "8,1024,14336",
    "15p": "4,16,4096,256",
    "16p": "4,64,4096,64",
    "17p": "1536,1536,128",
    "18k": "128,128,126,126",
    "21k": "4096,1",
    "22k": "128,128,126,126",
    "23k": "4096,1",
    "24k": "4096,1",
    "25k": "128",
    "28k": "32,64,32,64,64",
    "29k": "8192,4096",
    "30k": "16384,4096",
    "31k": "16384,8192",
    "32k": "16384",
    "33k": "16,64,30,62,62",
    "34k": "64,128,126,126",
    "36k": "4096,1",
    "39k": "128,64",
    "40k": "1,8192,4096,1",
    "46k": "128,1,126,126",
    "49k": "4096",
}
"""Published output shapes; the tasks that are not named give (4096, 8192)."""

HARDENED_OUTPUTS = {"13p": "8192", "14p": "8192,14336"}

INPUTS = {
    "3p": "4,2048,7168 7168,1536 1536,24576 7168,576 512,16384 512,16384 16384,7168",
    "5p": "4,64,4096,128 4,64,4096,128 4,64,4096,128 64,4096,4096",
    "6p": "64,64,128 16384,16,8,128 16384,16,8,128 i64 i64,256 i65",
    "7p": "4096,64,128 16384,16,16,128 i64 i64,256 i65 i1",
    "10p": "2,4096,4096 4096,8 8,4096,14336 8,4096,14336 8,14336,4096",
    "11p": "32768,4096 128,4096,1536 i128",
    "13p": "8192,4096 4096,128256 i8192",
    "16p": "4,64,4096,64 4,64,4096,64 4,64,4096,64 f4,64,4096",
    "17p": "1536,1536,128 1536,1536,1 128,128 128,128 128,128 128,128 128 128,128 128,128",
    "26k": "4096,8192 4096,8192 8192,8192 8192 8192 8192",
    "28k": "32,32,16,32,32 32,64,4,4,4 64 64 64",
    "32k": "16384,2048 4096,2048 4096 1024,4096 1024",
    "40k": "4096,8192 8192,8192 8192 8192 8192 1,8192,1,1",
    "43k": "4096,8192 8192,8192 8192 8192 8192 8192 8192 1",
    "46k": "128,8,128,128 64,8,3,3 64 64 64",
}
"""Full-size inputs of the published edition; bfloat16 but for int32 (i) and float32 (f)."""


def short(name: str) -> str:
    return name.partition("_")[0]


@pytest.mark.parametrize("name", suites.names("jaxbench"))
@pytest.mark.parametrize("edition", ["published", "f32", "hardened"])
def test_full_size_outputs(name: str, edition: str) -> None:
    task = module("jaxbench", name, edition)
    outputs = specs(output_shapes(task.reference, shapes(task.inputs)))
    shape = OUTPUTS.get(short(name), "4096,8192")
    if edition == "hardened":
        shape = HARDENED_OUTPUTS.get(short(name), shape)
    wide = short(name) in ("10p", "13p") or (edition == "f32" and short(name).endswith("k"))
    assert outputs == [f"{'float32' if wide else 'bfloat16'}[{shape}]"]


@pytest.mark.parametrize("name", INPUTS)
def test_full_size_inputs(name: str) -> None:
    dtypes = {"i": "int32", "f": "float32"}
    expected = [
        f"{dtypes.get(text[0], 'bfloat16')}[{text.lstrip('if')}]" for text in INPUTS[name].split()
    ]
    published = module("jaxbench", name, "published")
    assert specs(shapes(published.inputs)) == expected


@pytest.mark.parametrize("name", suites.names("jaxbench"))
@pytest.mark.parametrize("edition", ["published", "hardened"])
def test_check_size_has_the_same_form(name: str, edition: str) -> None:
    task = module("jaxbench", name, edition)
    full, check = (shapes(make) for make in (task.inputs, task.check_inputs))
    assert [(a.dtype, a.ndim) for a in full] == [(a.dtype, a.ndim) for a in check]
    assert all(b.size <= a.size for a, b in zip(full, check, strict=True))
    outputs = [output_shapes(task.reference, arrays) for arrays in (full, check)]
    assert outputs[0].dtype == outputs[1].dtype
    assert outputs[0].ndim == outputs[1].ndim


@pytest.mark.parametrize("name", ["6p", "7p", "11p", "14p", "25k", "42k"])
def test_hardened_inputs_differ_by_key(name: str) -> None:
    task = module("jaxbench", name)
    first, second = draw(task.check_inputs, 1), draw(task.check_inputs, 2)
    for position, (a, b) in enumerate(zip(first, second, strict=True)):
        assert not np.array_equal(a, b) or a.size == 1, f"input {position}"


def test_paged_lengths_cover_the_edges() -> None:
    for seed in range(3):
        *_, lens, table = draw(module("jaxbench", "6p").check_inputs, seed)
        assert {1, 512} <= set(np.asarray(lens).tolist())
        assert any(n % 16 == 0 for n in np.asarray(lens)[np.asarray(lens) < 512])
        assert sorted(np.ravel(table).tolist()) == list(range(256))


def test_ragged_lengths_are_consistent() -> None:
    for seed in range(3):
        *_, lens, _, ends = map(np.asarray, draw(module("jaxbench", "7p").check_inputs, seed))
        counts = np.diff(ends)[: np.count_nonzero(lens)]
        assert len(counts) in (9, 10)
        assert (counts > 0).all()
        assert (lens[: len(counts)] >= counts).all()
        assert (lens <= 256).all()
        assert not lens[len(counts) :].any()
        assert ends[len(counts)] <= 256
        assert (ends[len(counts) + 1 :] == 256).all()


def test_group_sizes_are_ragged() -> None:
    for seed in range(3):
        sizes = np.asarray(draw(module("jaxbench", "11p").check_inputs, seed)[2])
        assert sizes.sum() < 1024
        assert {0, 1} <= set(sizes.tolist())
        assert sizes.max() > 256


def test_published_inputs_are_the_original_draws() -> None:
    """8p: split(key(42)) gives A, B. 19k: x from seed 0; W, b from seed 0xBADC0DE."""
    k_a, k_b = jax.random.split(jax.random.key(42))
    a, b = jax.jit(module("jaxbench", "8p", "published").check_inputs)(jax.random.key(42))
    assert np.array_equal(a, jax.random.normal(k_a, (512, 1024), a.dtype))
    std = 0.02 * 8**0.5
    assert np.array_equal(b, jax.random.normal(k_b, (1024, 2048), b.dtype) * std)

    k_w, _ = jax.random.split(jax.random.key(0xBADC0DE))
    x, w, _ = jax.jit(module("jaxbench", "19k", "published").check_inputs)(jax.random.key(0))
    assert np.array_equal(x, jax.random.uniform(jax.random.key(0), (512, 1024), x.dtype))
    assert np.array_equal(w, jax.random.normal(k_w, (1024, 2048), w.dtype) * std)
