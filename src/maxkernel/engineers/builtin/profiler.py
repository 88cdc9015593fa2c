"""The built-in profiler: what limits a timed program, as its simulated schedule shows."""

from __future__ import annotations

from maxkernel.schedule import bottleneck, op_use
from maxkernel.targets import Target
from maxkernel.types import Diagnosis, ProgramTime, TaskInfo


class BuiltinProfiler:
    """Reads the simulated schedule."""

    def diagnose(self, info: TaskInfo, program: ProgramTime, target: Target) -> Diagnosis:
        """The bottleneck and what removing it could save, with figures of the longest operation.

        Figures: `share` of the time, `dma_stall`, `gain`, and how busy each unit is, 0 to 1.
        """
        if not program.ops:
            return Diagnosis("unknown", "the program has no operations")
        op = max(program.ops, key=lambda o: o.seconds)
        found = bottleneck(program, needed=info.io_bytes)
        figures = {
            "share": op.seconds / program.seconds if program.seconds else 0.0,
            "dma_stall": op.stall_cycles / op.cycles if op.cycles else 0.0,
            "gain": found.gain,
            **op_use(op, program.target),
        }
        text = f"{found.sentence} Removing this limit saves at most {found.gain:.0%}"
        return Diagnosis(found.limit, text, figures)
