"""Reads one `packed-bundles-post-ra` dump into bundles and instructions.

Vector instructions are only counted by unit; scalar, predicate, DMA and synchronisation
instructions are parsed, because they decide what runs and when.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Sequence

import msgspec

from maxkernel.schedule.kinds import NO_UNITS, Kind, kind_of, with_spills
from maxkernel.schedule.origin import Place, Places, without_strings
from maxkernel.schedule.problem import ScheduleError

MASK = 0xFFFFFFFF


class Register(msgspec.Struct, frozen=True, gc=False):
    """An SSA value: `s12` scalar, `p3` predicate, `12` a result that only a later pop reads."""

    name: str
    negated: bool = False


class Symbol(msgspec.Struct, frozen=True, gc=False):
    """`[#allocationN + 0x1]`: a fixed address in the memory of this program."""

    allocation: str
    offset: int = 0


class Memory(msgspec.Struct, frozen=True, gc=False):
    """`[smem:[a + b]]`: the sum of its terms is an address in `space`."""

    space: str
    terms: tuple[Operand, ...]


Operand = Register | Symbol | Memory | int
"""Integers are 32-bit patterns; floating-point constants are kept as their bits."""


class Instruction(msgspec.Struct, frozen=True, gc=False):
    """One scalar, predicate, DMA or synchronisation instruction.

    Runs when `guard` holds; a result keeps `otherwise` (or its old value) when it does not.
    """

    op: str
    result: str
    operands: tuple[Operand, ...] = ()
    named: dict[str, Operand] = {}
    guard: Register | None = None
    otherwise: Operand | None = None
    note: str = ""


class Bundle(msgspec.Struct, frozen=True, gc=False):
    """The instructions that issue in one cycle; `units` counts all of them as `COUNTED`."""

    instructions: tuple[Instruction, ...]
    units: tuple[int, ...]
    depth: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    places: tuple[tuple[int, int], ...] = ()
    """(number of its line, index of its unit) of every instruction that has a line."""
    text: str = ""
    """Without comments."""


class Program(msgspec.Struct, frozen=True):
    """One schedule file. `regions` maps a region number to the bundle that starts it."""

    name: str
    bundles: tuple[Bundle, ...]
    regions: dict[int, int]
    unknown: dict[str, int]
    places: tuple[Place, ...] = ()
    names: frozenset[str] = frozenset()
    """Of all its instructions."""


_LABEL = re.compile(r"/\*(\w+=)\*/")
_COMMENT = re.compile(r"/\*((?:[^*/]|\*(?!/)|/(?!\*))*)\*/")
_BUNDLE = re.compile(r"\s*(?:0x)?([0-9a-f]+)\s*(?:[A-Z]{2})?\s*: ?([ >]*)\{(.*)\}\s*(.*)$")
_HEADER = re.compile(r"= control target key (?:start|end)|[A-Z]{2}: |\s*$")
_INSTRUCTION = re.compile(r"\s*%(\w+) = (inlined_call_operand\.<[^>]*>|[\w.\-]+)(.*)$", re.DOTALL)
_OPS = re.compile(r" = (inlined_call_operand\.<[^>]*>|[\w.\-]+)")
_KEPT = re.compile(r"`(\d+)`")
_REGION = re.compile(r"(Start/End empty|Start|End) region (\d+)")
_GUARD = re.compile(r"\((!?)%(p\d+)(?:_\w+)?(?:, ([^)]+))?\),?")


def parse_program(text: str, name: str) -> Program:
    """The program in `text`; raises ScheduleError (`foreign`, `truncated`, `unknown_control`)."""
    text, strings = without_strings(text)
    plain, comments = _lift_comments(text)
    places = Places(strings, comments)
    bundles: list[Bundle] = []
    kinds: list[Kind] = []
    for line in plain.splitlines():
        match = _BUNDLE.match(line)
        if match is None:
            if _HEADER.match(line):
                continue
            raise _bad_line(line, name, len(bundles))
        if int(match[1], 16) != len(bundles):
            raise ScheduleError(
                "truncated", f"{name}: bundle {len(bundles):#x} is missing; found {match[1]} next"
            )
        bundles.append(_bundle(match, comments, places, kinds, name))
    regions = _regions(bundles, name)
    unknown = Counter(op for kind in kinds if kind.unknown for op in kind.unknown)
    names = frozenset(
        op for kind in {id(kind): kind for kind in kinds}.values() for op in kind.names
    )
    return Program(name, tuple(bundles), regions, dict(unknown), places.found, names)


def _lift_comments(text: str) -> tuple[str, list[str]]:
    """Moves comments, which nest and span lines, into a list; a backquoted index stays."""
    comments: dict[str, int] = {}

    def keep(match: re.Match[str]) -> str:
        return f"`{comments.setdefault(match[1], len(comments))}`"

    text = _LABEL.sub(lambda label: label[1], text.replace("`", "'"))
    for _ in range(4):
        text, count = _COMMENT.subn(keep, text)
        if not count:
            break
    return text, list(comments)


def _bad_line(line: str, name: str, bundle: int) -> ScheduleError:
    if bundle and ("{" in line or "/*" in line):
        return ScheduleError("truncated", f"{name}: the text ends inside bundle {bundle:#x}")
    return ScheduleError(
        "foreign", f"{name}: not a bundle of a packed-bundles-post-ra dump: {line.strip()[:80]!r}"
    )


def _bundle(
    match: re.Match[str], comments: list[str], places: Places, kinds: list[Kind], name: str
) -> Bundle:
    body = match[3]
    depth = match[2].count(">")
    starts, ends = _marks(match[4], comments) if match[4] else ((), ())
    if not body.strip():
        return Bundle((), NO_UNITS, depth, starts, ends)
    ops = _OPS.findall(body)
    if len(ops) != body.count(" ;; ") + 1:
        ops = [_split(text, name)[1] for text in body.split(" ;; ")]
    kind = kind_of(tuple(ops))
    kinds.append(kind)
    units = kind.units
    if not (kind.scalars or places.any or "_spill]" in body):
        return Bundle((), units, depth, starts, ends, (), body)
    texts = body.split(" ;; ")
    placed: list[tuple[int, int]] = []
    if places.any:
        for text, unit in zip(texts, kind.issued, strict=True):
            if unit >= 0 and (where := places.first(_KEPT.findall(text))) >= 0:
                placed.append((where, unit))
    if "_spill]" in body:
        units = with_spills(units, sum("_spill]" in texts[at] for at in kind.vectors))
    parsed = tuple(_instruction(texts[at], comments, name) for at in kind.scalars)
    return Bundle(parsed, units, depth, starts, ends, tuple(placed), body)


def _split(text: str, name: str) -> tuple[str, str, str]:
    """Result, name and operands of an instruction."""
    found = _INSTRUCTION.match(text)
    if found is None:
        raise ScheduleError("foreign", f"{name}: not an instruction: {text.strip()[:80]!r}")
    return found[1], found[2], found[3]


def _marks(text: str, comments: list[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    starts: list[int] = []
    ends: list[int] = []
    for kept in _KEPT.findall(text):
        for kind, number in _REGION.findall(comments[int(kept)]):
            if kind != "End":
                starts.append(int(number))
            if kind != "Start":
                ends.append(int(number))
    return tuple(starts), tuple(ends)


def _instruction(text: str, comments: list[str], name: str) -> Instruction:
    result, op, rest = _split(text, name)
    note = " ".join(comments[int(kept)].strip() for kept in _KEPT.findall(rest))
    rest = _KEPT.sub("", rest)
    result = _ssa(result)
    if op.startswith("inlined_call_operand"):
        index = re.search(r"index: (\d+)", rest)
        return Instruction(op, result, (int(index[1]) if index else 0,), note=f"{rest} {note}")
    if op == "sbr.rel":
        return _branch(result, rest, note)
    guard: Register | None = None
    otherwise: Operand | None = None
    held = _GUARD.search(rest)
    if held:
        guard = Register(held[2], bool(held[1]))
        otherwise = _operand(held[3]) if held[3] else None
        rest = rest[: held.start()] + rest[held.end() :]
    if op == "sst":
        rest = rest.replace("]]", "]],", 1)
    operands: list[Operand] = []
    named: dict[str, Operand] = {}
    for piece in rest.split(","):
        label, value = _piece(piece.strip())
        if value is None:
            continue
        if label:
            named[label] = value
        else:
            operands.append(value)
    return Instruction(op, result, tuple(operands), named, guard, otherwise, note)


def _branch(result: str, rest: str, note: str) -> Instruction:
    guard = _GUARD.search(rest)
    region = re.search(r"region = (\d+)", rest) or re.search(r"\$region(\d+)", rest)
    bundle = re.search(r"target bundleno = (\d+)", rest)
    if region is None:
        raise ScheduleError("unknown_control", f"a branch without a region: {rest.strip()[:80]!r}")
    held = Register(guard[2], bool(guard[1])) if guard else None
    target = int(bundle[1]) if bundle else -1
    return Instruction("sbr.rel", result, (int(region[1]), target), guard=held, note=note)


_LABELLED = re.compile(r"(?:\[[\w:$]+\]\s*)*(\w+)=(.*)$", re.DOTALL)
_BRACKETED_TAG = re.compile(r"^\[(?:thread|resolvable):[^\]]*\]\s*")


def _piece(text: str) -> tuple[str, Operand | None]:
    text = _BRACKETED_TAG.sub("", text)
    labelled = _LABELLED.match(text)
    if labelled:
        return labelled[1], _operand(labelled[2].strip())
    return "", _operand(text)


_SSA = re.compile(r"(!?)%(\w+)")
_SYMBOL = re.compile(r"\[#(allocation\d+(?:_spill)?)(?: \+ \$0x([0-9a-f]+))?\]")
_MEMORY = re.compile(r"\[(\w+):\[([^\]]*)\]\]")
_FLOAT = re.compile(r"-?(?:\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf|nan)\b", re.IGNORECASE)
_INTEGER = re.compile(r"-?\d+\b")


def _operand(text: str) -> Operand | None:
    found = _SSA.match(text)
    if found:
        return Register(_ssa(found[2]), bool(found[1]))
    found = _SYMBOL.match(text)
    if found:
        return Symbol(found[1], int(found[2], 16) if found[2] else 0)
    found = _MEMORY.match(text)
    if found:
        return Memory(found[1], tuple(_term(term) for term in found[2].split(" + ")))
    found = _FLOAT.match(text)
    if found:
        return struct.unpack("<I", struct.pack("<f", float(found[0])))[0]
    found = _INTEGER.match(text)
    return int(found[0]) & MASK if found else None


def _term(text: str) -> Operand:
    if text.startswith("%"):
        return Register(_ssa(text[1:]))
    if text.startswith("#"):
        return Symbol(text[1:])
    return int(text.removeprefix("$"), 0) & MASK


def _ssa(name: str) -> str:
    return name.split("_", 1)[0]


def _regions(bundles: Sequence[Bundle], name: str) -> dict[int, int]:
    if not bundles:
        raise ScheduleError("foreign", f"{name}: no bundle in the text")
    regions: dict[int, int] = {}
    for index, bundle in enumerate(bundles):
        for number in bundle.starts:
            regions.setdefault(number, index)
    if 0 not in regions or not any(0 in bundle.ends for bundle in bundles):
        raise ScheduleError(
            "truncated", f"{name}: the text ends at bundle {len(bundles) - 1:#x}, inside region 0"
        )
    return regions
