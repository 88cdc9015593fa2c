"""Small functions that emitted kernels carry along, written once with their reason."""

from __future__ import annotations

from collections.abc import Iterable

from maxkernel.engineers.builtin.terms import Term
from maxkernel.engineers.builtin.text import number

_SOURCES = {
    "sigmoid": '''def sigmoid(x):
    """Logistic function by one tanh instead of an exponential and a division."""
    return 0.5 * jnp.tanh(0.5 * x) + 0.5
''',
    "silu": '''def silu(x):
    """x * sigmoid(x), by one tanh instead of an exponential and a division."""
    half = 0.5 * x
    return half * jnp.tanh(half) + half
''',
    "softplus": '''def softplus(x):
    """log(1 + exp(x)) without overflow."""
    return jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))
''',
    "mish": '''def mish(x):
    """x * tanh(log(1 + exp(x))): with w = exp(x), tanh(log(1 + w)) is rational in w."""
    w = jnp.exp(jnp.minimum(x, 20.0))
    ratio = w * (w + 2.0)
    return x * (ratio / (ratio + 2.0))
''',
    "expm1": '''def expm1(x):
    """exp(x) - 1, exact near zero."""
    t = jnp.tanh(0.5 * x)
    return jnp.where(jnp.abs(x) < 0.5, 2.0 * t / (1.0 - t), jnp.exp(x) - 1.0)
''',
    "power": '''def power(x, exponent):
    """x to a small whole power by repeated multiplication."""
    result = x
    for _ in range(abs(exponent) - 1):
        result = result * x
    return result if exponent > 0 else 1.0 / result
''',
}
_GELU = '''def gelu(x):
    """tanh form of GELU; one constant folded into the other saves a multiplication."""
    inner = x * ({scale} + {cubic} * (x * x))
    half = 0.5 * x
    return half * jnp.tanh(inner) + half
'''
_RUN_MEAN = '''def run_mean(x, size):
    """Mean over each run of `size` columns, in every column of the run.

    The matrix unit adds and spreads in one go; lanes need not be shuffled.
    """
    width = size * 128 // math.gcd(size, 128)
    parts = []
    for start in range(0, x.shape[1], width):
        part = x[:, start : start + width]
        shape = (part.shape[1], part.shape[1])
        source = jax.lax.broadcasted_iota(jnp.int32, shape, 0) // size
        target = jax.lax.broadcasted_iota(jnp.int32, shape, 1) // size
        spread = jnp.where(source == target, 1.0, 0.0).astype(jnp.bfloat16)
        {product}
        parts.append(total * (1.0 / size))
    return jnp.concatenate(parts, axis=1)
'''
_ONE_PASS = """total = jnp.dot(
            part.astype(jnp.bfloat16), spread, preferred_element_type=jnp.float32
        )"""
_TWO_PASSES = """high = part.astype(jnp.bfloat16)
        low = (part - high.astype(jnp.float32)).astype(jnp.bfloat16)
        total = jnp.dot(high, spread, preferred_element_type=jnp.float32)
        total += jnp.dot(low, spread, preferred_element_type=jnp.float32)"""
_NAMES = {
    "logistic": "sigmoid",
    "silu": "silu",
    "softplus": "softplus",
    "mish": "mish",
    "expm1": "expm1",
    "gelu": "gelu",
    "integer_pow": "power",
}


def use(t: Term, args: list[str]) -> tuple[str, str] | None:
    """(source of the helper, call of it) for a term that needs one, None when there is none."""
    name = _NAMES.get(t.op)
    if name is None:
        return None
    if name == "gelu":
        scale, cubic = t.attr("scale"), t.attr("cubic")
        source = _GELU.format(scale=number(scale), cubic=number(scale * cubic))
        return source, f"gelu({args[0]})"
    if name == "power":
        args = [*args, str(t.attr("y"))]
    return _SOURCES[name], f"{name}({', '.join(args)})"


def run_mean(exact: bool) -> str:
    """Source of `run_mean`; `exact` keeps 16 bits of the mantissa, else 8."""
    return _RUN_MEAN.format(product=_TWO_PASSES if exact else _ONE_PASS)


def definitions(sources: Iterable[str]) -> str:
    """The helpers' definitions, each followed by two empty lines."""
    return "".join(f"{source}\n\n" for source in sorted(sources))
