"""How busy the units of a core are: issued instructions against the slots that there were."""

from __future__ import annotations

from maxkernel.schedule.constants import slots_of
from maxkernel.targets import TARGETS
from maxkernel.types import OpTime

UNIT_NAMES = {
    "mxu": "matrix units",
    "xlu": "cross-lane unit",
    "valu": "vector ALU",
    "eup": "transcendental unit",
    "load": "VMEM loads",
    "store": "VMEM stores",
    "scalar": "scalar unit",
}

REGISTERS = {"v4": 32}
"""Vector registers of a core, where it is not `MOST_REGISTERS`: the highest number in its dumps."""
MOST_REGISTERS = 64


def unit_use(units: dict[str, int], cycles: float, target: str) -> dict[str, float]:
    """Share of each unit's slots that were used in those cycles of one core, 0 to 1."""
    if cycles <= 0:
        return {}
    slots = slots_of(target)
    busy = {
        "mxu": units.get("matmul", 0) * slots.matmul_cycles / (slots.mxu * cycles),
        "xlu": units.get("xlu", 0) / (slots.xlu * cycles),
        "valu": (units.get("valu", 0) + units.get("eup", 0)) / (slots.valu * cycles),
        "eup": units.get("eup", 0) / (slots.eup * cycles),
        "load": units.get("load", 0) / (slots.load * cycles),
        "store": units.get("store", 0) / (slots.store * cycles),
        "scalar": units.get("scalar", 0) / (slots.scalar * cycles),
    }
    return {name: min(1.0, value) for name, value in busy.items() if value > 0}


def op_use(op: OpTime, target: str) -> dict[str, float]:
    """The same for an op in the cycles that it does not wait, on all cores of the device."""
    cores = TARGETS[target].cores if target in TARGETS else 1
    return unit_use(op.units, cores * (op.cycles - op.stall_cycles), target)


def registers_of(target: str) -> int:
    """Vector registers of a core."""
    return REGISTERS.get(target, MOST_REGISTERS)


def spill_share(units: dict[str, int]) -> float:
    """Share of VMEM loads and stores that only save and restore registers."""
    memory = units.get("load", 0) + units.get("store", 0)
    return units.get("spill", 0) / memory if memory else 0.0
