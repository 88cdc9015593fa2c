"""Cuts a program into blocks: straight runs of bundles that end in a branch and its delay slots."""

from __future__ import annotations

import msgspec

from maxkernel.schedule.problem import ScheduleError
from maxkernel.schedule.text import Instruction, Program, Register


class Block(msgspec.Struct, frozen=True):
    """Bundles `start` to `end` (exclusive). Afterwards: `target` if the guard holds, else `end`.

    `branch_at` is the bundle of the branch; its guard is read there.
    """

    start: int
    end: int
    guard: Register | None = None
    target: int | None = None
    branch_at: int = -1

    @property
    def backward(self) -> bool:
        """True where the branch closes a loop."""
        return self.target is not None and self.target <= self.branch_at


def split(program: Program, delay_slots: int) -> list[Block]:
    """The blocks of a program, each reachable start once.

    A branch target inside the delay slots of a branch starts a block of its own that repeats the
    rest of the slots. Raises ScheduleError (`truncated`) for a branch to a region that is not in
    the text and (`unknown_control`) for a branch inside delay slots.
    """
    branches = _branches(program)
    starts = {0} | {target for _, target in branches.values()}
    starts |= {at + delay_slots + 1 for at in branches}
    last = len(program.bundles)
    return [_block(start, last, starts, branches, delay_slots) for start in sorted(starts)
            if start < last]  # fmt: skip


def _branches(program: Program) -> dict[int, tuple[Instruction, int]]:
    found: dict[int, tuple[Instruction, int]] = {}
    for index, bundle in enumerate(program.bundles):
        for item in bundle.instructions:
            if item.op != "sbr.rel":
                continue
            if index in found:
                raise ScheduleError(
                    "unknown_control", f"{program.name}: two branches in bundle {index:#x}"
                )
            found[index] = (item, _target(program, item, index))
    return found


def _target(program: Program, item: Instruction, index: int) -> int:
    region = item.operands[0]
    assert isinstance(region, int)
    target = program.regions.get(region)
    if target is None:
        raise ScheduleError(
            "truncated",
            f"{program.name}: bundle {index:#x} branches to region {region}, which is not there",
        )
    return target


def _block(
    start: int,
    last: int,
    starts: set[int],
    branches: dict[int, tuple[Instruction, int]],
    delay_slots: int,
) -> Block:
    at = start
    while at < last:
        if at in branches:
            item, target = branches[at]
            end = min(at + delay_slots + 1, last)
            if any(slot in branches for slot in range(at + 1, end)):
                raise ScheduleError("unknown_control", f"a branch in the slots of {at:#x}")
            return Block(start, end, item.guard, target, at)
        at += 1
        if at in starts:
            return Block(start, at)
    return Block(start, last)
