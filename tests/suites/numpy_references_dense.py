"""The JaxBench tasks around matrix products in float64 numpy, written from their formulas."""

import numpy as np

EPS = 1e-5


def sigmoid(t):
    return 1 / (1 + np.exp(-t))


def silu(t):
    return t * sigmoid(t)


def softplus(t):
    return np.maximum(t, 0) + np.log1p(np.exp(-np.abs(t)))


def mish(t):
    return t * np.tanh(softplus(t))


def gelu(t):
    return t * sigmoid(2 * np.sqrt(2 / np.pi) * (t + 0.044715 * t**3))


def lse(t):
    """Log-sum-exp of each row."""
    top = t.max(-1)
    return top + np.log(np.exp(t - top[..., None]).sum(-1))


def softmax(t):
    return np.exp(t - lse(t)[..., None])


def standardise(t, axis):
    return (t - t.mean(axis, keepdims=True)) / np.sqrt(t.var(axis, keepdims=True) + EPS)


def per_run(t, size):
    """Each row's runs of `size` features, standardised."""
    return np.hstack([standardise(run, 1) for run in np.split(t, t.shape[1] // size, axis=1)])


def swiglu(x, gate, up, down):
    return (silu(x @ gate) * (x @ up)) @ down


def sparse_moe(x, router, gate, up, down):
    out = np.zeros_like(x)
    for b, s in np.ndindex(x.shape[:2]):
        token = x[b, s]
        logits = token @ router
        first, second = np.argsort(-logits, kind="stable")[:2]
        weight = sigmoid(logits[first] - logits[second])
        for e, w in ((first, weight), (second, 1 - weight)):
            out[b, s] += w * swiglu(token, gate[e], up[e], down[e])
    return out


def grouped_product(lhs, rhs, sizes):
    out = np.zeros((lhs.shape[0], rhs.shape[2]))
    start = 0
    for g, size in enumerate(sizes):
        out[start : start + size] = lhs[start : start + size] @ rhs[g]
        start += size
    return out


def rms_norm(x, scale):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * scale


def token_losses(h, w, labels):
    logits = h @ w
    return lse(logits) - logits[np.arange(len(labels)), labels]


def triangle(z, mask, w_l, w_r, w_lg, w_rg, scale, w_o, w_og):
    t = z * mask
    left, right = (t @ w_l) * sigmoid(t @ w_lg), (t @ w_r) * sigmoid(t @ w_rg)
    x = np.stack([left[:, :, c] @ right[:, :, c].T for c in range(z.shape[2])], -1)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale
    return (x @ w_o) * sigmoid(z @ w_og)


def instance_norm(x, y, w, b, scale, shift):
    return (per_run(x @ w.T + b, 128) * scale + shift + y) * y


def pooled_lse(x, w, b):
    t = x @ w.T + b
    pools = sum(t[:, i::16] for i in range(16)) / 16
    return lse(pools)[:, None]


def clamped_lse_mish(x, w, b):
    total = lse(np.clip(4 * (x @ w.T + b), -10, 10))
    return (total * mish(total))[:, None]


def group_min(x, w, b, scale, shift, bias):
    smallest = (per_run(x @ w.T + b, 16) * scale + shift).min(1)
    return np.add.outer(bias.ravel(), smallest)[None, :, :, None]


def batch_softmax(x, w, b, scale, shift, mean, var, factor):
    u = (x @ w + b - mean) * scale / np.sqrt(var + EPS) + shift
    return softmax(factor * u)


def batch_swish(x, w, b, scale, shift, mean, var, bias):
    u = (x @ w + b - mean) * scale / np.sqrt(var + EPS) + shift
    return silu((u + bias) / 1.5)


def pooled_max(x, w, b):
    t = x @ w + b
    pools = sum(t[:, i::16] for i in range(16)) / 16
    return 2 * gelu(pools).max(1)


def minus_row_maximum(x, w, b):
    t = x @ w + b
    return gelu(t - t.max(1, keepdims=True))


REFERENCES = {
    "8p": lambda a, b: a @ b,
    "9p": swiglu,
    "10p": sparse_moe,
    "11p": grouped_product,
    "12p": rms_norm,
    "13p": token_losses,
    "14p": grouped_product,
    "17p": triangle,
    "19k": lambda x, w, b: np.maximum(1.5 * (x @ w + b) - 3, 0),
    "20k": lambda x, w, b: np.maximum(2 * (x @ w + b), 0.2 * (x @ w + b)),
    "21k": lambda x, w: 0.75 * np.maximum(x @ w.T, 0).sum(1)[:, None],
    "23k": pooled_lse,
    "24k": clamped_lse_mish,
    "26k": instance_norm,
    "27k": lambda x, w, b: mish(mish(x @ w + b)),
    "29k": lambda x, w, b, g, s: per_run(silu(x @ w) + b, 64) * g + s,
    "30k": lambda x, w, b: 1.5 * (x @ w + b),
    "31k": lambda x, w, b, g, s: np.maximum(gelu(standardise(x @ w.T + b, 0) * g + s), 0),
    "32k": lambda x, w1, b1, w2, b2: lse(sigmoid(x @ w1.T + b1) @ w2.T + b2),
    "35k": lambda x, w, b: gelu(np.clip((x @ w + b) / 2, -2, 2)),
    "36k": lambda x, w, b: sigmoid(x @ w + b).sum(1)[:, None],
    "37k": lambda x, w, b: 2 * silu(x @ w + b),
    "38k": lambda x, w, b: softmax(x @ w.T + b),
    "40k": group_min,
    "41k": lambda x, w, b: np.maximum(x @ w + b, 0),
    "42k": minus_row_maximum,
    "43k": batch_softmax,
    "44k": lambda x, w, b: gelu((x @ w + b) / 10),
    "45k": lambda x, w, b, g, s, f: silu(silu(per_run(x @ w.T + b, 32) * g + s) * f),
    "47k": lambda x, w, b, a: np.clip(gelu(np.tanh(silu(x @ w + b + a))), -1, 1),
    "48k": batch_swish,
    "49k": pooled_max,
    "50k": lambda x, w, b: softmax(gelu(x @ w + b)),
}
