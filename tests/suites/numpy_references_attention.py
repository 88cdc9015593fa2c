"""JaxBench 1p to 7p, 15p and 16p in float64 numpy, written from their formulas."""

import numpy as np


def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, k, v, scale, bias=0.0, last_key=None):
    """One head: q (n, D), k (m, D), v (m, Dv); query i sees keys up to last_key[i], default i."""
    scores = q @ k.T * scale + bias
    last_key = np.arange(len(q)) if last_key is None else last_key
    scores[np.arange(len(k)) > np.asarray(last_key)[:, None]] = -np.inf
    return softmax(scores) @ v


def flash(q, k, v):
    return heads_first(q, k, v, q.shape[-1] ** -0.5)


def heads_first(q, k, v, scale, bias=None):
    """(B, H, S, D), grouped key/value heads."""
    out = np.empty((*q.shape[:3], v.shape[3]))
    group = q.shape[1] // k.shape[1]
    for b, h in np.ndindex(q.shape[:2]):
        add = 0.0 if bias is None else bias[h]
        out[b, h] = attend(q[b, h], k[b, h // group], v[b, h // group], scale, add)
    return out


def gqa(q, k, v):
    q, k, v = (t.transpose(0, 2, 1, 3) for t in (q, k, v))
    return heads_first(q, k, v, q.shape[-1] ** -0.5).transpose(0, 2, 1, 3)


def sparse(q, k, v):
    return heads_first(q, k, v, 1.0)


def flex(q, k, v, bias):
    return heads_first(q, k, v, q.shape[-1] ** -0.5, bias)


def half_split_rotation(t, positions, frequencies):
    """t (..., S, D): pair (i, i + D/2), a complex number, turns by positions[s] frequencies[i]."""
    half = t.shape[-1] // 2
    turned = (t[..., :half] + 1j * t[..., half:]) * np.exp(1j * np.outer(positions, frequencies))
    return np.concatenate([turned.real, turned.imag], -1)


def mla(x, w_q_down, w_q_up, w_kv_down, w_k_up, w_v_up, w_out):
    heads, rank = w_k_up.shape[1] // 128, w_k_up.shape[0]
    frequencies = 10000.0 ** (-2 * np.arange(32) / 64)
    out = np.empty_like(x)
    for b, item in enumerate(x):
        positions = np.arange(len(item))
        q = item @ w_q_down @ w_q_up
        latent = item @ w_kv_down
        k_rope = half_split_rotation(latent[:, rank:], positions, frequencies)
        k, v = latent[:, :rank] @ w_k_up, latent[:, :rank] @ w_v_up
        columns = []
        for h in range(heads):
            q_h, wide = q[:, h * 192 : (h + 1) * 192], slice(h * 128, (h + 1) * 128)
            q_rope = half_split_rotation(q_h[:, 128:], positions, frequencies)
            q_h = np.hstack([q_h[:, :128], q_rope])
            columns.append(attend(q_h, np.hstack([k[:, wide], k_rope]), v[:, wide], 192**-0.5))
        out[b] = np.hstack(columns) @ w_out
    return out


def paged(q, k_pages, v_pages, kv_lens, page_indices):
    out = np.empty_like(q)
    heads, kv_heads, page = q.shape[1], k_pages.shape[2], k_pages.shape[1]
    for s, length in enumerate(kv_lens):
        rows = [(page_indices[s, p // page], p % page) for p in range(length)]
        at = tuple(np.array(rows).T)
        for h in range(heads):
            g = h // (heads // kv_heads)
            k, v = k_pages[:, :, g][at], v_pages[:, :, g][at]
            out[s, h] = attend(q[s, h][None], k, v, q.shape[2] ** -0.5, last_key=[length - 1])
    return out


def ragged_paged(q, kv_pages, kv_lens, page_indices, cu_q_lens):
    out = np.zeros_like(q)
    heads, kv_heads = q.shape[1], kv_pages.shape[2] // 2
    for s in np.flatnonzero(kv_lens):
        first, end, length = cu_q_lens[s], cu_q_lens[s + 1], kv_lens[s]
        kv = np.concatenate(kv_pages[page_indices[s]])[:length]
        last_key = length - (end - first) + np.arange(end - first)
        for h in range(heads):
            g = h // (heads // kv_heads)
            k, v = kv[:, 2 * g], kv[:, 2 * g + 1]
            scale = 1 / np.sqrt(q.shape[2])
            out[first:end, h] = attend(q[first:end, h], k, v, scale, last_key=last_key)
    return out


def retention(q, k, v):
    out = np.empty_like(v)
    lag = np.subtract.outer(np.arange(q.shape[2]), np.arange(q.shape[2]))
    for b, h in np.ndindex(q.shape[:2]):
        weights = np.where(lag >= 0, (1 - 2.0 ** (-5 - h)) ** np.maximum(lag, 0), 0)
        s = q[b, h] @ k[b, h].T * weights
        out[b, h] = s / np.maximum(np.abs(s).sum(1, keepdims=True), 1) @ v[b, h]
    return out


def state_space(q, k, v, a_logit):
    """As a recurrence: a state and a running normaliser per head."""
    out = np.empty_like(v)
    keep = 1 / (1 + np.exp(-a_logit)) + 1e-8
    for b, h in np.ndindex(q.shape[:2]):
        state, total = np.zeros((q.shape[3], v.shape[3])), np.zeros(q.shape[3])
        for t in range(q.shape[2]):
            decay = keep[b, h, t]
            state = decay * state + np.outer(k[b, h, t], v[b, h, t])
            total = decay * total + k[b, h, t]
            out[b, h, t] = q[b, h, t] @ state / max(abs(q[b, h, t] @ total), 1)
    return out


REFERENCES = {
    "1p": flash,
    "2p": gqa,
    "3p": mla,
    "4p": sparse,
    "5p": flex,
    "6p": paged,
    "7p": ragged_paged,
    "15p": retention,
    "16p": state_space,
}
