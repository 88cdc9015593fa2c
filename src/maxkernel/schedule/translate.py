"""Turns a program into one Python function that runs its scalar side and adds up its cycles.

Only what `liveness` finds is kept. The generated source contains nothing from the dump but integers
and names of values that matched `[a-z]+[0-9]+`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import msgspec

from maxkernel.schedule.blocks import Block, split
from maxkernel.schedule.context import Context
from maxkernel.schedule.copies import DmaSite
from maxkernel.schedule.crosslane import held
from maxkernel.schedule.emit import Emitter
from maxkernel.schedule.liveness import analyse
from maxkernel.schedule.machine import Machine
from maxkernel.schedule.scalar import HELPERS
from maxkernel.schedule.text import Program

Run = Callable[[float, Machine, tuple[int, ...], list[int]], float]
"""(start, machine, operands, executions per block) -> end, in cycles."""


class Executable(msgspec.Struct, frozen=True):
    """A translated program; `calls` are the comments of its inlined calls, in order."""

    program: Program
    blocks: tuple[Block, ...]
    run: Run
    calls: tuple[str, ...]
    sites: tuple[DmaSite, ...]
    allocations: int
    reads_core: bool
    scalars: tuple[int, ...]
    """Operands that are scalars, or lie in scalar memory, and matter."""
    unknown: dict[str, int]
    held: dict[int, int]
    """Cycles that a bundle waits for a cross-lane unit each time it runs, by its number."""


def translate(program: Program, context: Context, delay_slots: int) -> Executable:
    """Translates `program`; raises ScheduleError where control flow cannot be followed."""
    facts = analyse(program, context.follows_copies)
    blocks = split(program, delay_slots)
    emitter = Emitter(program, facts, context)
    waits = held(program.bundles, blocks, context.transpose)
    bodies = [
        _block_source(emitter, block, index, blocks, waits) for index, block in enumerate(blocks)
    ]
    source = _function(emitter, bodies)
    scope: dict[str, object] = dict(HELPERS)
    exec(compile(source, f"<schedule {program.name}>", "exec"), scope)
    return Executable(
        program, tuple(blocks), cast(Run, scope["run"]), tuple(emitter.calls),
        tuple(emitter.sites), emitter.allocations,
        emitter.reads_core,
        tuple(emitter.scalars), dict(emitter.unknown), waits,
    )  # fmt: skip


def _block_source(
    emitter: Emitter, block: Block, index: int, blocks: list[Block], waits: Mapping[int, int]
) -> list[str]:
    lines = [f"n[{index}] += 1"]
    condition = "1"
    offset = 0
    for at in range(block.start, block.end):
        offset += waits.get(at, 0)
        lines += emitter.bundle(at, offset)
        offset += 1
        if at == block.branch_at and block.guard is not None:
            condition = emitter.condition(block)
    lines.append(f"t += {offset}")
    number = {item.start: position for position, item in enumerate(blocks)}
    if block.target is not None:
        lines += [f"if {condition}:", *(["    burn()"] if block.backward else [])]
        lines += [f"    pc = {number[block.target]}", "    continue"]
    if block.end in number:
        lines += [f"pc = {number[block.end]}", "continue"]
    else:
        lines.append("return t")
    return lines


def _function(emitter: Emitter, bodies: list[list[str]]) -> str:
    lines = [
        "def run(t, m, a, n):",
        "    smem = m.smem; load = smem.get; dma = m.dma; wait = m.wait; add = m.add",
        "    burn = m.burn; core = m.core; call = m.call",
        *(f"    {name} = w_{name} = 0" for name in sorted(emitter.names)),
        "    pc = 0",
        "    while True:",
        *(f"        {line}" for line in _dispatch(bodies, 0, len(bodies))),
    ]
    return "\n".join(lines) + "\n"


def _dispatch(bodies: list[list[str]], low: int, high: int) -> list[str]:
    if high - low == 1:
        return bodies[low]
    middle = (low + high) // 2
    return [
        f"if pc < {middle}:",
        *(f" {line}" for line in _dispatch(bodies, low, middle)),
        "else:",
        *(f" {line}" for line in _dispatch(bodies, middle, high)),
    ]
