"""Register pressure: how many vector registers hold a value that is still needed, bundle by bundle.

Registers are physical by then, so a program that runs out of them has spilled already: pressure at
the limit together with spills says that the body wants to be cut into smaller pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

from maxkernel.schedule.blocks import Block
from maxkernel.schedule.origin import registers_of
from maxkernel.schedule.text import Bundle


def live_registers(bundles: Sequence[Bundle], blocks: Sequence[Block]) -> list[int]:
    """Vector registers that are live on entry to each bundle; loops and branches are followed."""
    starts = {block.start: index for index, block in enumerate(blocks)}
    entry = [0] * len(blocks)
    live = [0] * len(bundles)
    used = [registers_of(bundle.text) for bundle in bundles]
    changed = True
    while changed:
        changed = False
        for index in range(len(blocks) - 1, -1, -1):
            block = blocks[index]
            after = [target for target in (block.target, block.end) if target in starts]
            held = 0
            for target in after:
                held |= entry[starts[target]]
            for at in range(block.end - 1, block.start - 1, -1):
                reads, writes = used[at]
                held = held & ~writes | reads
                live[at] = held
            if held != entry[index]:
                entry[index] = held
                changed = True
    return [value.bit_count() for value in live]
