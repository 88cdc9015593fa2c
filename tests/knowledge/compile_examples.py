"""Compiles every example of the guide for some TPUs and runs it interpreted; a line for each.

Its own process, because it imports jax. Usage: compile_examples.py GUIDE_FOLDER TOPOLOGY...
"""

import os
import re
import sys
from pathlib import Path

os.environ |= {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v6e-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "JAX_PLATFORMS": "cpu",
}

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import SingleDeviceSharding

INPUT = re.compile(r"(\w+)\[([\d,]*)\](?: < (\d+))?")


def make(dtype: str, shape: str, below: str) -> jax.Array:
    """Random values; integers below the bound that the example states."""
    sizes = tuple(int(size) for size in shape.split(","))
    generator = np.random.default_rng(0)
    if below:
        return jnp.asarray(generator.integers(0, int(below), sizes), dtype)
    return jnp.asarray(generator.standard_normal(sizes), dtype)


def check(code: str, kinds: list[str]) -> str:
    """`ok`, or what went wrong."""
    inputs = [make(*found) for found in INPUT.findall(code.splitlines()[0])]
    space: dict[str, object] = {}
    exec(compile(code, "example", "exec"), space)
    tunables = {name: choices[0] for name, choices in space.get("TUNABLES", {}).items()}

    def kernel(*arrays: jax.Array) -> jax.Array:
        return space["kernel"](*arrays, **tunables)

    for topology in kinds:
        device = topologies.get_topology_desc(topology, "tpu").devices[0]
        shapes = [
            jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=SingleDeviceSharding(device))
            for x in inputs
        ]
        kind = jax.sharding.AbstractDevice(device.device_kind, 1, "tpu")
        mesh = jax.sharding.AbstractMesh((), (), abstract_device=kind)
        with jax.sharding.use_abstract_mesh(mesh):
            jax.jit(kernel).trace(*shapes).lower(lowering_platforms=("tpu",)).compile()
            with pltpu.force_tpu_interpret_mode():
                interpreted = jax.make_jaxpr(kernel)(*inputs)
    (out,) = jax.jit(jax.extend.core.jaxpr_as_fun(interpreted))(*inputs)
    finite = bool(jnp.isfinite(out.astype(jnp.float32)).all())
    moved = bool(jnp.abs(out.astype(jnp.float32)).sum() > 0)
    return "ok" if finite and moved else f"{finite=} {moved=}"


for path in sorted(Path(sys.argv[1]).glob("*.md")):
    for code in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
        print(path.name, check(code, sys.argv[2:]), flush=True)
