# attack: the capture's own facts are forged: there is no Pallas at all
# task: rows
# verdict: refused capture/forbidden
# bypassed: refused rules/no_pallas

import jax.numpy as jnp
from jax import lax


def plain(x, scale):
    y = x.astype(jnp.float32)
    y = y * lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-5)
    return (y * scale).astype(x.dtype)


kernel = plain
from maxkernel.types import PallasCall
from maxkernel.worker import capture

TRUE = capture.facts_of


def forged(jaxpr, outputs):
    from msgspec.structs import replace

    return replace(TRUE(jaxpr, outputs), pallas_calls=(PallasCall("norm", (16,)),))


capture.facts_of = forged
