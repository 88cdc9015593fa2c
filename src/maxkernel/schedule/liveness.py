"""What decides: the instructions that feed branches, DMAs, synchronisation, stores and calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from maxkernel.schedule.lanes import address_of
from maxkernel.schedule.scalar import CONTROL, IGNORED
from maxkernel.schedule.text import Instruction, Memory, Operand, Program, Register, Symbol


class Liveness(msgspec.Struct, frozen=True):
    """`live`: results that feed an effect. `needed`: those of them that time depends on, a part.
    `tainted`: results that depend on vector data; `looked_up`: those of them that depend only on
    values whose address is known. `spills`: register spills that nothing needed reads."""

    live: frozenset[str]
    needed: frozenset[str]
    tainted: frozenset[str]
    looked_up: frozenset[str] = frozenset()
    spills: frozenset[str] = frozenset()


def analyse(program: Program, follows_copies: bool) -> Liveness:
    """Backward reachability from what has an effect, and forward reachability from vector data.

    `follows_copies`: what copies between HBM and VMEM move is followed, so addresses matter.
    """
    everything = [item for bundle in program.bundles for item in bundle.instructions]
    live = _live(everything)
    needed, spills = (live, set[str]()) if follows_copies else _needed(everything, live)
    pushes = {item.result: address_of(item) is not None for item in everything
              if item.op.startswith("vpush")}  # fmt: skip
    tainted = _reached(everything, pushes)
    lost = _reached(everything, [name for name, known in pushes.items() if not known])
    return Liveness(
        frozenset(live),
        frozenset(needed),
        frozenset(tainted),
        frozenset(tainted - lost),
        frozenset(spills),
    )


def _live(everything: list[Instruction]) -> set[str]:
    """Results that feed an effect."""
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
    return live


def _needed(everything: list[Instruction], live: set[str]) -> tuple[set[str], set[str]]:
    """Live results that can change the time, and the spill slots that none of them is read from.

    Where a copy between HBM and VMEM points is not one of them, nor what only leads there.
    """
    private = _private_slots(everything)
    stores: dict[str, list[Instruction]] = {}
    feeds: dict[str, list[Instruction]] = {}
    phis: dict[str, list[str]] = {}
    todo: list[str] = []
    for item in everything:
        feeds.setdefault(item.result, []).append(item)
        slot = spill_slot(item)
        if item.op == "sst" and slot in private:
            stores.setdefault(slot, []).append(item)
        elif is_root(item):
            todo += registers(item, untimed(item))
        elif item.op in ("spop", "vpop.sfrf") and item.result in live:
            todo.append(item.result)
        if item.op == "sphi" and item.result in live:
            for name in registers(item):
                phis.setdefault(name, []).append(item.result)
    needed: set[str] = set()
    while todo:
        name = todo.pop()
        if name in needed:
            continue
        needed.add(name)
        todo += phis.get(name, ())
        for item in feeds.get(name, ()):
            todo += registers(item)
            if item.op == "sld":
                for store in stores.pop(spill_slot(item), ()):
                    todo += registers(store)
    return needed, set(stores)


_COPY = re.compile(r"dma\.(hbm|vmem|cmem)_to_(hbm|vmem|cmem)")
_TIMED = ("size_in_granules", "dst_syncflagno", "steps_per_stride", "stridedescaddr")


def untimed(item: Instruction) -> tuple[str, ...]:
    """Operands of a copy between HBM and VMEM that say where, and not how much or how."""
    if not _COPY.fullmatch(item.op):
        return ()
    return tuple(name for name in item.named if name not in _TIMED)


def spill_slot(item: Instruction) -> str:
    """The register spill that a scalar load or store names; empty for any other."""
    memory = item.operands[0] if item.op in ("sld", "sst") and item.operands else None
    if isinstance(memory, Memory) and len(memory.terms) == 1:
        return _spill(memory.terms[0])
    return ""


def _spill(operand: Operand) -> str:
    if isinstance(operand, Symbol) and operand.allocation.endswith("_spill"):
        return "" if operand.offset else operand.allocation
    return ""


def _private_slots(everything: list[Instruction]) -> set[str]:
    """Spill slots that are only loaded from and stored to, by name."""
    slots: set[str] = set()
    shared: set[str] = set()
    for item in everything:
        named = spill_slot(item)
        slots.add(named)
        for operand in [*item.operands[1 if named else 0 :], *item.named.values()]:
            terms = operand.terms if isinstance(operand, Memory) else (operand,)
            shared.update(term.allocation for term in terms if isinstance(term, Symbol))
    return slots - shared - {""}


def is_root(item: Instruction) -> bool:
    """True for an instruction that has an effect beyond its result."""
    if item.op in IGNORED:
        return False
    return item.op in ("sst", "inlined_call") or item.op.startswith(CONTROL)


def registers(item: Instruction, without: Sequence[str] = ()) -> Iterable[str]:
    """Names of the values that an instruction reads, `without` some of its named operands."""
    operands = [*item.operands, *(v for name, v in item.named.items() if name not in without)]
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
