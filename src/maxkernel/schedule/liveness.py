"""What decides: the instructions that feed branches, DMAs, synchronisation, stores and calls."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from maxkernel.schedule.lanes import address_of
from maxkernel.schedule.scalar import CONTROL, IGNORED
from maxkernel.schedule.text import Instruction, Memory, Operand, Program, Register, Symbol


class Liveness(msgspec.Struct, frozen=True):
    """`live`: results that must be computed. `tainted`: results that depend on vector data;
    `looked_up`: those of them that depend only on values whose address is known."""

    live: frozenset[str]
    tainted: frozenset[str]
    looked_up: frozenset[str] = frozenset()


def analyse(program: Program) -> Liveness:
    """Backward reachability from what has an effect, and forward reachability from vector data."""
    everything = [item for bundle in program.bundles for item in bundle.instructions]
    uses: dict[str, set[str]] = {}
    for item in everything:
        uses.setdefault(item.result, set()).update(registers(item))
    todo = [name for item in everything if is_root(item) for name in registers(item)]
    live: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in live:
            live.add(name)
            todo.extend(uses.get(name, ()))
    pushes = {item.result: address_of(item) is not None for item in everything
              if item.op.startswith("vpush")}  # fmt: skip
    tainted = _reached(everything, pushes)
    lost = _reached(everything, [name for name, known in pushes.items() if not known])
    return Liveness(frozenset(live), frozenset(tainted), frozenset(tainted - lost))


def is_root(item: Instruction) -> bool:
    """True for an instruction that has an effect beyond its result."""
    if item.op in IGNORED:
        return False
    return item.op in ("sst", "inlined_call") or item.op.startswith(CONTROL)


def registers(item: Instruction) -> Iterable[str]:
    """Names of the values that an instruction reads."""
    operands: list[Operand] = [*item.operands, *item.named.values()]
    if item.guard is not None:
        operands.append(item.guard)
    if item.otherwise is not None:
        operands.append(item.otherwise)
    for operand in operands:
        if isinstance(operand, Register):
            yield operand.name
        elif isinstance(operand, Memory):
            for term in operand.terms:
                if isinstance(term, Register):
                    yield term.name


def _reached(everything: list[Instruction], pushes: Iterable[str]) -> set[str]:
    """Results that depend on what these instructions push."""
    readers: dict[str, list[str]] = {}
    slots: dict[str, set[str]] = {}
    for item in everything:
        if item.op == "sst":
            for slot in _slots(item):
                readers.setdefault(_stored(item), []).append(f"mem:{slot}")
        for name in registers(item):
            readers.setdefault(name, []).append(item.result)
        if item.op == "sld":
            for slot in _slots(item):
                slots.setdefault(f"mem:{slot}", set()).add(item.result)
    tainted: set[str] = set()
    todo = list(pushes)
    while todo:
        name = todo.pop()
        if name in tainted:
            continue
        tainted.add(name)
        todo.extend(readers.get(name, ()))
        todo.extend(slots.get(name, ()))
    return tainted


def _slots(item: Instruction) -> list[str]:
    """Allocations that a scalar load or store names directly."""
    memory = item.operands[0] if item.operands else None
    if not isinstance(memory, Memory):
        return []
    return [term.allocation for term in memory.terms if isinstance(term, Symbol)]


def _stored(item: Instruction) -> str:
    value = item.operands[1] if len(item.operands) > 1 else None
    return value.name if isinstance(value, Register) else ""
