"""17p: triangle multiplicative update with outgoing edges, the AlphaFold-2 pair stack.

t = z * mask; l = (t Wlp) * sigmoid(t Wlg), r likewise; x_ijc = sum_k l_ikc r_jkc; x is divided by
its RMS over channels, scaled, projected by Wop and gated by sigmoid(z Wog), z unmasked. All in
bfloat16. Full size: 1536 residues, 128 channels.

As published, the mask is all ones and the gates stay near a half. The hardened edition masks 15 %
of the pairs and draws larger weights.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}

EPS = 1e-6


def reference(z, mask, w_left, w_right, w_left_gate, w_right_gate, scale, w_out, w_out_gate):
    """z: (n, n, C); mask: (n, n, 1); weights: (C, C); scale: (C,). Returns (n, n, C)."""
    t = z * mask
    left = (t @ w_left) * jax.nn.sigmoid(t @ w_left_gate)
    right = (t @ w_right) * jax.nn.sigmoid(t @ w_right_gate)
    x = jnp.einsum("ikc,jkc->ijc", left, right)
    x = x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPS) * scale
    return (x @ w_out) * jax.nn.sigmoid(z @ w_out_gate)


def inputs(key):
    return draw(key, residues=1536, channels=128)


def check_inputs(key):
    return draw(key, residues=128, channels=128)


def draw(key, residues, channels):
    keys = jax.random.split(key, 9)
    hardened = EDITION == "hardened"
    inner = 2.0 / channels**0.5 if hardened else 0.02
    outer = 1.0 / channels**0.5 if hardened else 0.02
    if hardened:
        mask = jax.random.bernoulli(keys[8], 0.85, (residues, residues, 1)).astype(jnp.bfloat16)
    else:
        mask = jnp.ones((residues, residues, 1), jnp.bfloat16)
    square = (channels, channels)
    return (
        normal(keys[0], (residues, residues, channels)),
        mask,
        normal(keys[1], square, inner),
        normal(keys[2], square, inner),
        normal(keys[3], square, inner),
        normal(keys[4], square, inner),
        1 + normal(keys[5], (channels,), 0.25 if hardened else 0.1),
        normal(keys[6], square, outer),
        normal(keys[7], square, inner),
    )


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
