"""A reference that XLA cannot fit in the memory of a chip: a kernel that runs there is the result,
and no speedup is told."""

from typing import Any

TASK = '''"""Log-sum-exp over a product that, kept whole, takes 32 GiB."""

import jax
import jax.numpy as jnp


def reference(x, w):
    return jax.nn.logsumexp((x @ w).astype(jnp.float32), axis=-1)


def inputs(key):
    return _arrays(key, 131072)


def check_inputs(key):
    return _arrays(key, 1024)


def _arrays(key, size):
    one, other = jax.random.split(key)
    x = jax.random.normal(one, (size, 128), jnp.bfloat16)
    return x, jax.random.normal(other, (128, size), jnp.bfloat16) / 8
'''


def test_a_kernel_that_fits_is_handed_back_without_a_speedup(cli: Any) -> None:
    (cli.folder / "vocabulary.py").write_text(TASK)
    optimize = ("optimize", "vocabulary.py", "--target", "v5e", "--mode", "graph")
    status, report = cli.json(*optimize, "--budget-candidates", "1")
    assert (status, report["outcome"], report["speedup"]) == (0, "fits", None), report
    assert "does not fit in the memory of a v5e" in report["misfit"]
    assert report["confirmed"] and report["best"]["provenance"] == "simulated"
    assert all(line["speedup"] is None for line in report["candidates"])
    bundle = cli.folder / report["bundle"]
    told = (bundle / "report.md").read_text()
    assert "| XLA baseline | does not fit in memory |" in told
    assert "x XLA" not in cli.run("graph", "last")[1]

    kernel = str(bundle / "kernel.py")
    status, out, _ = cli.run("judge", "vocabulary.py", kernel, "--target", "v5e")
    assert status == 0
    assert "accepted, the only program that fits in memory: XLA's does not" in out
    status, found = cli.json("verify", str(bundle))
    assert status == 0, found
    claims = {finding["claim"]: finding["words"] for finding in found["findings"]}
    assert claims["XLA baseline"].startswith("does not fit in memory found")
    status, out, error = cli.run("profile", "vocabulary.py", "xla", "--target", "v5e")
    assert status != 0 and "does not fit in the memory of a v5e" in out + error
