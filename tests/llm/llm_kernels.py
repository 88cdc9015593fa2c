"""A kernel for `scaled_rows`, and the usual mistakes that models make on the way to it."""

GOOD = """import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {"block_rows": (256, 512)}


def _body(x_ref, scale_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale_ref[...]


def kernel(x, scale, *, block_rows):
    rows, width = x.shape
    block = min(block_rows, rows)
    return pl.pallas_call(
        _body,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(pl.cdiv(rows, block),),
        in_specs=[
            pl.BlockSpec((block, width), lambda i: (i, 0)),
            pl.BlockSpec((1, width), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((block, width), lambda i: (i, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x, scale.reshape(1, width))
"""

WRONG_NAME = GOOD.replace("pltpu.CompilerParams", "pltpu.TPUCompilerParams")
MISALIGNED = GOOD.replace('"block_rows": (256, 512)', '"block_rows": (12, 20)')
TOO_LARGE = GOOD.replace('"block_rows": (256, 512)', '"block_rows": (4096, 2048)')
WRONG_NUMBERS = GOOD.replace(" * scale_ref[...]", "")
CHEAT = """import jax.numpy as jnp


def kernel(x, scale):
    return jnp.zeros_like(x)
"""

MISTAKES = (WRONG_NAME, MISALIGNED, TOO_LARGE, WRONG_NUMBERS)


def fenced(source: str) -> str:
    """As a model answers."""
    return f"Here is the kernel.\n\n```python\n{source}```\n"
