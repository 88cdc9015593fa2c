"""The workloads of current models in float64 numpy, part 1: attention and recurrences."""

import numpy as np
from numpy_references_attention import attend, half_split_rotation, heads_first, paged, ragged_paged
from numpy_references_dense import sigmoid, softplus

MLA_SCALE = 0.13523377628


def sequence_major(function):
    """`function` on (B, H, S, D) instead of (B, S, H, D)."""

    def turned(q, k, v, *rest):
        return function(*(t.transpose(0, 2, 1, 3) for t in (q, k, v)), *rest).transpose(0, 2, 1, 3)

    return turned


@sequence_major
def causal(q, k, v):
    return heads_first(q, k, v, q.shape[-1] ** -0.5)


def root_mean_square(t, eps):
    return np.sqrt((t**2).mean(-1, keepdims=True) + eps)


@sequence_major
def norm_rope(q, k, v, w_q, w_k):
    positions, frequencies = np.arange(q.shape[2]), 1e6 ** (-2 * np.arange(64) / 128)
    q, k = (
        half_split_rotation(t / root_mean_square(t, 1e-6) * w, positions, frequencies)
        for t, w in ((q, w_q), (k, w_k))
    )
    return heads_first(q, k, v, 128**-0.5)


def windowed(q, k, v, window, score, sink=None):
    """Query by query over just the keys in its window; `score` maps products to scores."""
    out = np.empty((*q.shape[:3], v.shape[3]))
    group = q.shape[1] // k.shape[1]
    for b, h, i in np.ndindex(q.shape[:3]):
        keys = slice(max(0, i - window + 1), i + 1)
        e = np.exp(score(k[b, h // group, keys] @ q[b, h, i]))
        total = e.sum() + (0 if sink is None else np.exp(sink[h]))
        out[b, h, i] = e @ v[b, h // group, keys] / total
    return out


@sequence_major
def soft_cap(q, k, v, window):
    return windowed(q, k, v, window, lambda s: 50 * np.tanh(s / 12 / 50))


@sequence_major
def norm_window(q, k, v, w_q, w_k, window):
    q = q / root_mean_square(q, 1e-6) * (1 + w_q)
    k = k / root_mean_square(k, 1e-6) * (1 + w_k)
    return windowed(q, k, v, window, lambda s: s / np.sqrt(168))


@sequence_major
def sinks(q, k, v, sink, window=128):
    return windowed(q, k, v, window, lambda s: s / 8, sink)


def latent_prefill(q, k_nope, k_rope, v):
    out = np.empty_like(v)
    for b, h in np.ndindex(q.shape[0], q.shape[2]):
        k = np.hstack([k_nope[b, :, h], k_rope[b]])
        out[b, :, h] = attend(q[b, :, h], k, v[b, :, h], MLA_SCALE)
    return out


def latent_decode(q_nope, q_rope, w_uk, w_uv, cache, lengths, table):
    """Not absorbed: every cached latent becomes a key and a value of the head."""
    out = np.empty_like(q_nope)
    for s, length in enumerate(lengths):
        rows = np.concatenate(cache[table[s]])[:length]
        for h in range(q_nope.shape[1]):
            k = np.hstack([rows[:, :512] @ w_uk[h].T, rows[:, 512:]])
            query = np.concatenate([q_nope[s, h], q_rope[s, h]])[None]
            v = rows[:, :512] @ w_uv[h]
            out[s, h] = attend(query, k, v, MLA_SCALE, last_key=[length - 1])
    return out


def selected_rows(q, kv, sink, indices):
    out = np.empty_like(q)
    for b, m in np.ndindex(q.shape[:2]):
        rows = kv[b, [i for i in indices[b, m] if i >= 0]]
        e = np.exp(q[b, m] @ rows.T / np.sqrt(q.shape[-1]))
        out[b, m] = e @ rows / (e.sum(1) + np.exp(sink))[:, None]
    return out


def delta_step(q, k, v, a, b, a_log, dt_bias, state):
    """One step of one sequence: q, k (Hk, D); v (H, Dv); state (H, D, Dv), not changed in place."""
    out, new = np.empty_like(v), np.empty_like(state)
    for h in range(len(v)):
        q_h, k_h = q[h * len(q) // len(v)], k[h * len(q) // len(v)]
        q_h = q_h / np.sqrt(q_h @ q_h + 1e-6) / np.sqrt(len(q_h))
        k_h = k_h / np.sqrt(k_h @ k_h + 1e-6)
        kept = np.exp(-np.exp(a_log[h]) * softplus(a[h] + dt_bias[h])) * state[h]
        new[h] = kept + np.outer(k_h, sigmoid(b[h]) * (v[h] - k_h @ kept))
        out[h] = q_h @ new[h]
    return out, new


def delta_prefill(q, k, v, a, b, a_log, dt_bias, state):
    out, state = np.empty_like(v), state.copy()
    for n, t in np.ndindex(v.shape[:2]):
        step = (x[n, t] for x in (q, k, v, a, b))
        out[n, t], state[n] = delta_step(*step, a_log, dt_bias, state[n])
    return out, state


def delta_decode(q, k, v, a, b, a_log, dt_bias, state):
    steps = [
        delta_step(*(x[n] for x in (q, k, v, a, b)), a_log, dt_bias, state[n])
        for n in range(len(q))
    ]
    return tuple(np.stack(part) for part in zip(*steps, strict=True))


def selective_scan(x, dt, a_log, b, c, d):
    y, state = np.empty_like(x), np.zeros((x.shape[0], *x.shape[2:], b.shape[2]))
    for t in range(x.shape[1]):
        keep = np.exp(-dt[:, t] * np.exp(a_log))
        fresh = np.einsum("bh,bhp,bn->bhpn", dt[:, t], x[:, t], b[:, t])
        state = keep[..., None, None] * state + fresh
        y[:, t] = np.einsum("bhpn,bn->bhp", state, c[:, t]) + d[:, None] * x[:, t]
    return y, state


REFERENCES = {
    "w01": causal,
    "w02": paged,
    "w03": ragged_paged,
    "w04": norm_rope,
    "w05": soft_cap,
    "w05b": lambda q, k, v: soft_cap(q, k, v, q.shape[1]),
    "w06": norm_window,
    "w07": sinks,
    "w07b": lambda q, k, v, sink: sinks(q, k, v, sink, q.shape[1]),
    "w08": latent_prefill,
    "w09": latent_decode,
    "w09b": latent_decode,
    "w10": selected_rows,
    "w11": delta_prefill,
    "w12": delta_decode,
    "w13": selective_scan,
}
