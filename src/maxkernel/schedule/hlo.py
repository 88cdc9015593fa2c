"""Reads what is needed from the scheduled HLO text: one line per instruction, and equal ones."""

from __future__ import annotations

import hashlib
import re

import msgspec

LINE_LIMIT = 300
"""Characters kept of an HLO line."""

_LINE = re.compile(r"^\s*(?:ROOT )?%([\w.\-]+) = (.*)$")
_HEAD = re.compile(r"^(ENTRY )?%([\w.\-]+) \(.*\{\s*$")
_PARAMETER = re.compile(r"(\S+) parameter\((\d+)\)")
_CONSTRAINTS = re.compile(r"operand_layout_constraints=\{((?:[^{}]|\{[^{}]*\})*)\}")
_NOISE = re.compile(
    r", (?:metadata|backend_config|frontend_attributes|sharding|operand_layout_constraints)="
)
_TILES = re.compile(r":T((?:\([\d,]+\))+)")
_ARRAY = re.compile(r"\b(pred|[a-z]+\d+\w*)\[([\d,]*)\](\{[^}]*\})?")
_COLLECTIVE = re.compile(
    r" (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter|collective-broadcast"
    r"|send|recv)(?:-start)?\("
)


class Hlo(msgspec.Struct, frozen=True):
    """The instructions of a module: full line by name, and their computation."""

    lines: dict[str, str]
    computations: dict[str, tuple[str, ...]]
    parameters: dict[int, str] = {}
    """Type and layout of each input of the program, by position."""

    def short(self, name: str) -> str:
        """The instruction's line without metadata, at most `LINE_LIMIT` characters."""
        line = self.lines.get(name)
        if line is None:
            return ""
        text = f"%{name} = {_core(line)}"
        return text if len(text) <= LINE_LIMIT else text[: LINE_LIMIT - 3] + "..."

    def is_kernel(self, name: str) -> bool:
        """True for a Pallas (Mosaic) kernel."""
        return 'custom_call_target="tpu_custom_call"' in self.lines.get(name, "")

    def tiles_of_operand(self, name: str, index: int) -> tuple[tuple[int, ...], ...]:
        """The tiles of an operand's layout, largest first; empty where the text has none."""
        call = re.search(r" [\w\-]+\(([^)]*)\)", self.lines.get(name, ""))
        operands = re.findall(r"%([\w.\-]+)", call[1]) if call else []
        if index >= len(operands):
            return ()
        return _tiles(self.lines.get(operands[index], ""))

    def is_parameter(self, index: int, shape: tuple[int, ...]) -> bool:
        """True where the input at this position has this shape."""
        found = _ARRAY.match(self.parameters.get(index, ""))
        return found is not None and found[2] == ",".join(map(str, shape))

    def tiles_of_parameter(self, index: int) -> tuple[tuple[int, ...], ...]:
        """The tiles of an input's layout, largest first."""
        return _tiles(self.parameters.get(index, ""))

    def signature(self, name: str) -> tuple[str, ...]:
        """Type of each operand of a kernel, `s32[8,128]`; empty where the text has none."""
        types = _CONSTRAINTS.search(self.lines.get(name, ""))
        return tuple(f"{t}[{n}]" for t, n, _ in _ARRAY.findall(types[1])) if types else ()

    def bytes_in_hbm(self, name: str) -> float:
        """Bytes of an instruction's operands and results that lie in HBM, each once."""
        line = self.lines.get(name, "")
        call = re.search(r" [\w\-]+\(([^)]*)\)", line)
        operands = dict.fromkeys(re.findall(r"%([\w.\-]+)", call[1])) if call else {}
        shapes = [line[: call.start()] if call else line]
        shapes += [self._shape(operand) for operand in operands]
        return float(sum(bytes_of_shapes(text) for text in shapes))

    def prefetches(self) -> dict[str, float]:
        """Copies whose data the previous execution of the program already fetched: their bytes."""
        return {
            name: float(bytes_of_shapes(line.partition(" copy-start(")[0]))
            for name, line in self.lines.items()
            if " copy-start(" in line and "cross_program_prefetch_index=" in line
        }

    def collective(self) -> str:
        """The first instruction that talks to other chips; empty where there is none."""
        for name, line in self.lines.items():
            found = _COLLECTIVE.search(line)
            if found:
                return f"%{name} ({found[1]})"
            if '"has_communication":true' in line:
                return f"%{name} (a kernel with remote copies or signals)"
        return ""

    def fingerprint(self, name: str) -> str:
        """A digest that equal instructions share: same op, shapes, attributes, computations."""
        return hashlib.sha256(self._canonical(name, 0).encode()).hexdigest()

    def _canonical(self, name: str, depth: int) -> str:
        line = self.lines.get(name, name)
        text = _core(line)
        if "tpu_custom_call" in line:
            body = re.search(r'"body":"([^"]*)"', line)
            text += hashlib.sha256((body[1] if body else "").encode()).hexdigest()
        if depth < 4:
            text = re.sub(
                r"(calls|to_apply)=%([\w.\-]+)",
                lambda match: "{" + self._computation(match[2], depth + 1) + "}",
                text,
            )
        return re.sub(r"%([\w.\-]+)", lambda match: self._shape(match[1]), text)

    def _computation(self, name: str, depth: int) -> str:
        members = self.computations.get(name, ())
        index = {member: f"#{position}" for position, member in enumerate(members)}
        lines: list[str] = []
        for member in members:
            text = self._canonical_member(member, index, depth)
            lines.append(text)
        return ";".join(lines)

    def _canonical_member(self, name: str, index: dict[str, str], depth: int) -> str:
        text = _core(self.lines[name])
        text = re.sub(
            r"(calls|to_apply)=%([\w.\-]+)",
            lambda match: "{" + (self._computation(match[2], depth + 1) if depth < 4 else "") + "}",
            text,
        )
        return re.sub(r"%([\w.\-]+)", lambda match: index.get(match[1], "?"), text)

    def _shape(self, name: str) -> str:
        line = self.lines.get(name, "")
        return line.split(" ", 1)[0]


def _tiles(line: str) -> tuple[tuple[int, ...], ...]:
    layout = _TILES.search(line.split(" ", 1)[0])
    tiles = re.findall(r"\(([\d,]+)\)", layout[1]) if layout else []
    return tuple(tuple(int(edge) for edge in tile.split(",")) for tile in tiles)


def bytes_of_shapes(text: str) -> int:
    """Bytes of the arrays in a text that carry no memory space, which is HBM."""
    total = 0
    for dtype, sizes, layout in _ARRAY.findall(text):
        bits = re.search(r"\d+", dtype)
        if "S(" not in layout:
            count = 1
            for size in sizes.split(","):
                count *= int(size or 1)
            total += count * max(1, int(bits[0]) // 8 if bits else 1)
    return total


def parse_hlo(text: str) -> Hlo:
    """The instructions in an HLO module's text; lines that are none are skipped."""
    lines: dict[str, str] = {}
    computations: dict[str, tuple[str, ...]] = {}
    parameters: dict[int, str] = {}
    current, entry = "", False
    members: list[str] = []
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            entry, current, members = bool(head[1]), head[2], []
            continue
        if line.startswith("}"):
            computations[current] = tuple(members)
            continue
        found = _LINE.match(line)
        if found:
            lines[found[1]] = found[2]
            members.append(found[1])
            parameter = _PARAMETER.match(found[2]) if entry else None
            if parameter:
                parameters[int(parameter[2])] = parameter[1]
    return Hlo(lines, computations, parameters)


def _core(line: str) -> str:
    target = re.search(r'custom_call_target="[^"]*"', line)
    cut = _NOISE.split(line, maxsplit=1)[0]
    if target and target[0] not in cut:
        cut += f", {target[0]}"
    kept = re.search(r"cross_program_prefetch_index=\d+", line)
    if kept and kept[0] not in cut:
        cut += f", {kept[0]}"
    return cut
