"""What a translation needs to know: where memory and sync flags lie, and what its target does."""

from __future__ import annotations

import msgspec

from maxkernel.schedule.text import Program, Symbol

SPACING = 1 << 18
"""Distance between the addresses of two allocations: scalar memory has at most 2**18 words."""

FLAG_SPACING = 32
"""Distance between the numbers of two allocations of sync flags."""


class Context(msgspec.Struct, frozen=True):
    """Where a program's memory lies, how it begins, and what it runs on."""

    base: int
    """Address of its first allocation; the others follow at steps of `SPACING`."""
    flags: int
    """Number of its first sync flag; v5p keeps 13 bits of the flags of a kernel."""
    default_word: int = 0
    """What scalar memory holds where nothing was stored."""
    parameters: int = 0
    """Address of the program's first parameter."""
    follows_copies: bool = False
    """Whether the machine follows what copies between HBM and VMEM move."""
    transpose: int = 0
    """Cycles that a 32-bit register to transpose keeps its unit busy; 0: as scheduled."""


def flag_allocations(program: Program) -> dict[str, int]:
    """The allocations of a program that hold sync flags, numbered."""
    found: dict[str, int] = {}
    for bundle in program.bundles:
        for item in bundle.instructions:
            flags = [item.named.get("dst_syncflagno")]
            if item.op.startswith(("vsync", "vwait", "dma.done", "scalar_lea.sflag")):
                flags += item.operands[:1]
            for flag in flags:
                if isinstance(flag, Symbol):
                    found.setdefault(flag.allocation, len(found))
    return found
