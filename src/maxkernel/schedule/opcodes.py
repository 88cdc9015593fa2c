"""Which issue slot an instruction takes, by its name.

The assignment is the compiler's own: its per-bundle slot tables for v5e and v6e programs were
solved for the slots of each name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

Unit = Literal["mxu", "xlu", "valu", "eup", "load", "store", "scalar", "pop"]
UNITS: tuple[Unit, ...] = ("mxu", "xlu", "valu", "eup", "load", "store", "scalar", "pop")
"""`pop` reads a result of MXU, XLU or EUP back; `eup` operations take a VALU slot as well."""
COUNTED = (*UNITS, "matmul", "spill")
"""What bundles count: units, and of those the matrix products and the register spills."""

_STEMS: dict[str, Unit] = {
    **dict.fromkeys(
        "vmatmul vmatpush vmatpush1 vmatpush2 vmatpush3 vmatprep vmatres vdwg".split(), "mxu"
    ),
    **dict.fromkeys("vxpose vset vsetperm".split(), "xlu"),
    **dict.fromkeys("vpow vpow2 vrcp vrsqrt vtanh vlog2 vsinq vcosq verf".split(), "eup"),
    **dict.fromkeys("vld vlds vldi cld vrng vtrace".split(), "load"),
    **dict.fromkeys("vst vsts vsti cst vsetiar".split(), "store"),
    **dict.fromkeys(
        "vadd vsub vmul vmax vmin vand vor vxor vnot vneg vabs vsel vcmp vcmask vc vclz vpopcnt "
        "vcvt vshll vshrl vshra vpack vunpack vmov vstv vlaneseq vcombine vfloor vceil vround "
        "vtrunc vmand vmor vmxor vmneg vmmov vmandn vmpackc vmunpackc vweird vrot vperm vclamps "
        "vbcast vnand vnor vmulhi vrem vdiv vaddc vsubc vmsel vreplicate vtie vcreate "
        "vclamp-gez vf32".split(),
        "valu",
    ),
}
_SCALAR = ("vsync", "vwait", "vsettm", "vdelay", "vpush", "vpop.sfrf", "vpop.drf")
_MATMUL = "vmatmul"
PHIS = ("vphi", "vmphi")
"""Where values of a loop meet, in one register: they take no slot."""


@lru_cache(maxsize=4096)
def unit_of(op: str) -> Unit | None:
    """The slot that issues `op`; None for a vector instruction that this table does not know.

    Scalar, predicate, DMA and synchronisation instructions are all `scalar`.
    """
    if not is_vector(op):
        return "scalar"
    stem = op.split(".", 1)[0]
    if stem == "vpop":
        return "pop"
    if ".xlane" in op or ".xlu" in op or op.startswith("vrot.lane"):
        return "xlu"
    return _STEMS.get(stem)


@lru_cache(maxsize=4096)
def is_vector(op: str) -> bool:
    """True for an instruction that works on vector registers only and so never steers control."""
    if op in ("cld", "cst"):
        return True
    return op.startswith("v") and not op.startswith(_SCALAR)


def is_matmul(op: str) -> bool:
    """True for an instruction that streams rows through an MXU."""
    return op.startswith(_MATMUL)
