"""What things cost, for ranking plans: bytes over bandwidth against instructions over slots."""

from __future__ import annotations

from collections.abc import Iterable

from maxkernel.engineers.builtin.terms import Program
from maxkernel.targets import Target

BANDWIDTH_SHARE = 0.85
"""Of peak HBM bandwidth that long contiguous DMAs reach (published v6e rows: 1.41 of 1.64 TB/s)."""
STEP_SECONDS = 0.35e-6
"""Fixed cost of one grid step of a pipeline (jax documentation, "about 0.35 us")."""
VALU_SLOTS = 4
VREG_ELEMENTS = 1024
_BYTES = {"float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "int16": 2, "uint16": 2}
_VALU = {"gelu": 7, "silu": 3, "mish": 14, "softplus": 10, "logistic": 2, "div": 6, "exp": 2}
_EUP = frozenset("exp exp2 log log1p tanh rsqrt sqrt logistic gelu silu div pow".split())
_FREE = frozenset("input literal size iota".split())


def itemsize(dtype: str) -> int:
    """Bytes per element."""
    return _BYTES.get(dtype, 1)


def vector_cycles(program: Program, terms: Iterable[int], elements: float) -> float:
    """Cycles that the vector units need for `elements` elements of each of these terms."""
    valu = eup = 0.0
    for index in terms:
        op = program[index].op
        if op not in _FREE:
            valu += _VALU.get(op, 1)
            eup += op in _EUP or 2 * (op in ("mish", "softplus"))
    return max(valu / VALU_SLOTS, eup) * elements / VREG_ELEMENTS


def memory_seconds(count: float, target: Target) -> float:
    """Seconds to move bytes between HBM and VMEM."""
    return count / (BANDWIDTH_SHARE * target.hbm_bandwidth)
