"""The built-in profiler: which unit a timed program waits for."""

from __future__ import annotations

from maxkernel.targets import Target
from maxkernel.types import Diagnosis, OpTime, ProgramTime, TaskInfo
from maxkernel.types.search import Limit

_UNITS: dict[str, Limit] = {
    "mxu": "mxu",
    "valu": "vector",
    "eup": "special",
    "xlu": "special",
    "load": "load_store",
    "store": "load_store",
    "scalar": "issue",
}
_SLOTS = {"mxu": 2, "valu": 4, "eup": 1, "xlu": 2, "load": 3, "store": 2, "scalar": 2}
"""Instructions that one bundle can issue per unit (the compiler's own capacity table, v6e)."""


class BuiltinProfiler:
    """Reads the simulated schedule."""

    def diagnose(self, info: TaskInfo, program: ProgramTime, target: Target) -> Diagnosis:
        """The longest operation, and whether it waits for memory or for an execution unit."""
        if not program.ops:
            return Diagnosis("unknown", "the program has no operations")
        op = max(program.ops, key=lambda o: o.seconds)
        share = op.seconds / program.seconds if program.seconds else 0.0
        stalled = op.stall_cycles / op.cycles if op.cycles else 0.0
        busy = _busy(op)
        figures = {"share": share, "dma_stall": stalled, **busy}
        rate = (op.read_bytes + op.write_bytes) / op.seconds if op.seconds else 0.0
        unit = max(busy, key=lambda u: busy[u], default="")
        if stalled > 0.3:
            limit: Limit = "hbm"
            why = f"waits for HBM {stalled:.0%} of its cycles at {rate / 1e12:.2f} TB/s"
        else:
            limit = _UNITS.get(unit, "issue") if busy.get(unit, 0.0) > 0.5 else "issue"
            most = f"{unit or 'none'} at {busy.get(unit, 0.0):.0%}"
            why = f"does not wait for memory; busiest unit {most}"
        return Diagnosis(limit, f"{op.name} takes {share:.0%} of the time and {why}", figures)


def _busy(op: OpTime) -> dict[str, float]:
    """Fraction of the operation's working cycles in which each unit's slots were used."""
    working = op.cycles - op.stall_cycles
    if working <= 0:
        return {}
    return {u: op.units[u] / (n * working) for u, n in _SLOTS.items() if op.units.get(u)}
