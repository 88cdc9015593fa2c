"""Which functional unit an instruction occupies, by its name."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

Unit = Literal["mxu", "xlu", "valu", "eup", "load", "store", "scalar"]
UNITS: tuple[Unit, ...] = ("mxu", "xlu", "valu", "eup", "load", "store", "scalar")

_MXU = {"vmatmul", "vmatpush", "vmatpush1", "vmatpush2", "vmatpush3", "vmatprep", "vmatres"} | {
    "vmatmul2", "vmatmul3", "vdwg", "vmatmsk",
}  # fmt: skip
_EUP = {"vpow", "vpow2", "vrcp", "vrsqrt", "vtanh", "vlog2", "vsinq", "vcosq", "verf", "vsigshft"}
_LOAD = {"vld", "vlds", "vldi", "cld", "vfill"}
_STORE = {"vst", "vsts", "vsti", "cst", "vspill"}
_XLU = {"vxpose", "vperm", "vbcast", "vset", "vsetperm", "vpermute"}
_VALU = {
    "vadd", "vsub", "vmul", "vmax", "vmin", "vand", "vor", "vxor", "vsel", "vcmp", "vcmask",
    "vclamps", "vcvt", "vshll", "vshrl", "vshra", "vpack", "vunpack", "vmov", "vneg", "vabs",
    "vstv", "vlaneseq", "vlaneid", "vcombine", "vfloor", "vceil", "vround", "vtrunc", "vmand",
    "vmor", "vmxor", "vmneg", "vmmov", "vmandm", "vclz", "vpopcnt", "vweird", "vnand", "vnor",
    "vrng", "vsetiar", "vcreate", "vadds", "vsubs", "vmuls", "vmula", "vfma", "vmadd", "vmsub",
    "vreplicate", "vcnvt", "vrem", "vdiv", "vmulhi", "vscale", "vcvtpt", "vmselect", "vaddc",
    "vclamp", "vmpack", "vmunpack", "vcvtp", "vexp", "vsig", "vprng", "vnot", "vmnand", "vmnor",
    "vpackc", "vcarry", "vshuffle", "vcount", "vreduce", "vmand2",
}  # fmt: skip
_STEMS: dict[str, Unit] = {
    **dict.fromkeys(_MXU, "mxu"),
    **dict.fromkeys(_EUP, "eup"),
    **dict.fromkeys(_LOAD, "load"),
    **dict.fromkeys(_STORE, "store"),
    **dict.fromkeys(_VALU, "valu"),
}
_POP: dict[str, Unit] = {
    "trf": "xlu",
    "xlane": "xlu",
    "permute": "xlu",
    "eup": "eup",
    "f32": "mxu",
    "crf": "load",
}
_SYNC = {
    "vsyncadd", "vsyncpa", "vsyncset", "vsyncmov", "vwait", "vtrace", "vsettm", "vdelay",
    "vpush", "vpop", "vsyncdone",
}  # fmt: skip


@lru_cache(maxsize=4096)
def unit_of(op: str) -> Unit | None:
    """The unit that issues `op`; None for a vector instruction that this table does not know.

    Scalar, predicate, DMA and synchronisation instructions are all `scalar`.
    """
    stem = op.split(".", 1)[0]
    if not is_vector(op):
        return "scalar"
    if stem == "vpop":
        return _pop_unit(op)
    if ".xlane" in op or ".xlu" in op or stem in _XLU:
        return "xlu"
    if stem == "vrot":
        return "xlu" if ".lane" in op else "valu"
    return _STEMS.get(stem)


def _pop_unit(op: str) -> Unit | None:
    kind = op.split(".")[1] if "." in op else ""
    found: Unit | None = _POP.get(kind)
    if found is None and kind in ("sfrf", "ccrf", "drf", "rng"):
        return "scalar"
    if found is None and (".mrf" in op or ".mrb" in op):
        return "mxu"
    return found


def is_vector(op: str) -> bool:
    """True for an instruction that works on vector registers only and so never steers control."""
    if op in ("cld", "cst"):
        return True
    if not op.startswith("v"):
        return False
    stem = op.split(".", 1)[0]
    return stem not in _SYNC or (stem == "vpop" and not op.startswith(("vpop.sfrf", "vpop.drf")))
