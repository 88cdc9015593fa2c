"""The workloads of current models in float64 numpy, part 2: experts, layers, losses, quantised."""

import numpy as np
from numpy_references_attention import half_split_rotation
from numpy_references_dense import lse, rms_norm, sigmoid, silu, softmax, swiglu


def per_token(x, weights_of, expert):
    """Sum over the experts that serve a token, token by token."""
    out = np.zeros_like(x)
    for t, token in enumerate(x):
        for e, weight in weights_of(token).items():
            out[t] += weight * expert(token, e)
    return out


def qwen_experts(x, router, gate, up, down, chosen):
    def weights_of(token):
        p = softmax(token @ router)
        best = np.argsort(-p)[: int(chosen)]
        return {e: p[e] / p[best].sum() for e in best}

    return per_token(x, weights_of, lambda t, e: swiglu(t, gate[e], up[e], down[e]))


def deepseek_experts(x, router, bias, gate, up, down, shared_gate, shared_up, shared_down):
    def weights_of(token):
        score = sigmoid(token @ router)
        by_group = (score + bias).reshape(8, -1)
        best_groups = np.argsort(-np.sort(by_group, 1)[:, -2:].sum(1))[:4]
        size = by_group.shape[1]
        allowed = [e for e in range(len(score)) if e // size in best_groups]
        best = sorted(allowed, key=lambda e: -(score + bias)[e])[:8]
        total = sum(score[e] for e in best)
        return {e: 2.5 * score[e] / total for e in best if e < len(gate)}

    routed = per_token(x, weights_of, lambda t, e: swiglu(t, gate[e], up[e], down[e]))
    return routed + swiglu(x, shared_gate, shared_up, shared_down)


def clipped_experts(x, router, router_bias, gate_up, gate_up_bias, down, down_bias):
    def weights_of(token):
        logits = token @ router + router_bias
        best = np.argsort(-logits)[:4]
        return dict(zip(best, softmax(logits[best]), strict=True))

    def expert(token, e):
        pairs = (token @ gate_up[e] + gate_up_bias[e]).reshape(-1, 2)
        gate, up = np.minimum(pairs[:, 0], 7), np.clip(pairs[:, 1], -7, 7)
        return ((up + 1) * gate * sigmoid(1.702 * gate)) @ down[e] + down_bias[e]

    return per_token(x, weights_of, expert)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def unpacked(packed, scale):
    """Byte by byte: low half, then high half, each looked up and scaled by its block."""
    out = np.empty((packed.shape[0], 2 * packed.shape[1], packed.shape[2]))
    for half in (0, 1):
        code = packed >> 4 if half else packed & 15
        out[:, half::2] = np.where(code > 7, -1.0, 1.0) * E2M1[code & 7]
    return out * np.repeat(2.0 ** (scale.astype(int) - 127), 32, axis=1)


def quantised_experts(
    x, router, router_bias, gate_up, gate_up_scale, gate_up_bias, down, down_scale, down_bias
):
    wide = unpacked(gate_up, gate_up_scale), unpacked(down, down_scale)
    return clipped_experts(x, router, router_bias, wide[0], gate_up_bias, wide[1], down_bias)


def sorted_experts(x, row_weights, group_sizes, gate, up, down):
    experts = np.repeat(np.arange(len(group_sizes)), group_sizes)
    out = np.empty_like(x)
    for e in range(len(group_sizes)):
        out[experts == e] = swiglu(x[experts == e], gate[e], up[e], down[e])
    return out * row_weights[:, None]


def residual_norm(x, r, weight):
    return x + r, rms_norm(x + r, weight)


def scaled_rope(q, k, positions):
    frequencies = []
    for i in range(64):
        f = 5e5 ** (-2 * i / 128)
        turns = 8192 * f / (2 * np.pi)
        share = np.clip((turns - 1) / 3, 0, 1)
        frequencies.append((1 - share) * f / 8 + share * f)
    return tuple(
        np.stack(
            [
                half_split_rotation(item.transpose(1, 0, 2), p, frequencies).transpose(1, 0, 2)
                for item, p in zip(t, positions, strict=True)
            ]
        )
        for t in (q, k)
    )


def losses(logits, labels):
    normaliser = lse(logits)
    picked = logits[np.arange(len(labels)), labels]
    return np.where(labels == -100, 0, normaliser - picked), normaliser


def int8_product(x, x_scale, w, w_scale):
    return (x * x_scale) @ (w * w_scale)


def fp8_product(x, x_scale, w, w_scale):
    ones = np.ones((128, 128))
    return (x * np.kron(x_scale, ones[0])) @ (w * np.kron(w_scale, ones)).T


REFERENCES = {
    "w14": qwen_experts,
    "w15": deepseek_experts,
    "w16": clipped_experts,
    "w16b": quantised_experts,
    "w17": sorted_experts,
    "w18": lambda x, gate, up, down: (silu(x @ gate) * (x @ up)) @ down,
    "w19": residual_norm,
    "w20": scaled_rope,
    "w21": lambda h, w, labels: losses(h @ w, labels),
    "w22": lambda h, w, labels: losses(h @ w[:-64].T, labels),
    "w22b": lambda h, w, labels: losses(30 * np.tanh(h @ w.T / 30), labels),
    "w23": int8_product,
    "w24": fp8_product,
}
