"""w22: tied embedding and cross-entropy per token, Gemma-3-27B, vocabulary 262208.

Logits l = h W^T in float32, W being the embedding; its last 64 rows are no tokens and stay out of
the normaliser. normaliser_t = log sum exp l_t; loss_t = normaliser_t - l_t[label_t], 0 where the
label is -100. Both are returned for every token. Full size: 4096 tokens, hidden width 5376.
"""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-3}

UNUSED = 64


def reference(h, w, labels):
    """h: (T, H); w: (V, H); labels: (T,) int32. Returns losses and normalisers, (T,) float32."""
    logits = jnp.einsum("th,vh->tv", h, w, preferred_element_type=jnp.float32)
    token = jnp.arange(w.shape[0]) < w.shape[0] - UNUSED
    normaliser = jax.nn.logsumexp(jnp.where(token, logits, -jnp.inf), axis=-1)
    picked = jnp.take_along_axis(logits, jnp.maximum(labels, 0)[:, None], axis=-1)[:, 0]
    return jnp.where(labels >= 0, normaliser - picked, 0.0), normaliser


def inputs(key):
    return draw(key, tokens=4096, width=5376, vocabulary=262208)


def check_inputs(key):
    return draw(key, tokens=256, width=512, vocabulary=8256)


def draw(key, tokens, width, vocabulary):
    """Unused rows have ten times the spread, so that counting them shows."""
    k_h, k_w, k_labels = jax.random.split(key, 3)
    valid = vocabulary - UNUSED
    spread = jnp.where(jnp.arange(vocabulary) < valid, 2.0, 20.0)[:, None] * width**-0.5
    h, w = normal(k_h, (tokens, width)), normal(k_w, (vocabulary, width), spread)
    return h, w, draw_labels(k_labels, h @ w[:valid].T)


def draw_labels(key, logits):
    """Half from the softmax, half uniform, 3 % of them -100."""
    k_softmax, k_uniform, k_which, k_ignored = jax.random.split(key, 4)
    tokens, vocabulary = logits.shape
    likely = jax.random.categorical(k_softmax, logits.astype(jnp.float32))
    any_label = jax.random.randint(k_uniform, (tokens,), 0, vocabulary)
    labels = jnp.where(jax.random.bernoulli(k_which, 0.5, (tokens,)), likely, any_label)
    return jnp.where(jax.random.bernoulli(k_ignored, 0.03, (tokens,)), -100, labels)


def normal(key, shape, std=1.0):
    return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
