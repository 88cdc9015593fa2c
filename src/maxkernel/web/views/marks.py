"""Marks in the margin of a kernel's source: where its cycles go, line by line.

The compiler names the line that each instruction comes from, so a line is marked with its share of
the kernel's cycles. Where it named none (an older compiler), a line is marked with the units that
its calls issue to, as far as their names tell, and with how busy those were. What a pipeline's
copies cost stands at the lines that describe them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from maxkernel.engineers.builtin import BuiltinProfiler
from maxkernel.judge import Prepared
from maxkernel.modes.pair import calls_by_line, unit_of
from maxkernel.parsing import parse
from maxkernel.types import Evaluation, LineTime, ProgramTime

UNIT_NAMES = {
    "mxu": "matrix unit",
    "eup": "transcendental unit",
    "xlu": "cross-lane unit",
    "valu": "vector unit",
    "dma": "HBM",
}
SOURCE_FILE = "kernel.py"
"""What a candidate's source is called where it is traced."""
_HOT, _WARM = 0.5, 0.2
"""Fractions of time from which a unit counts as hot, and as warm."""
_HOT_LINE, _WARM_LINE = 0.25, 0.05
"""Fractions of a kernel's cycles from which a line counts as hot, and as warm."""


@dataclass(frozen=True)
class Mark:
    """What the margin says of one line."""

    heat: int
    """1 cool, 2 warm, 3 hot."""
    label: str
    title: str


def marks(source: str, evaluation: Evaluation | None, prepared: Prepared | None) -> dict[int, Mark]:
    """Marks by line number; none where there is no profile."""
    if evaluation is None or evaluation.program is None or prepared is None:
        return {}
    figures = BuiltinProfiler().diagnose(prepared.info, evaluation.program, prepared.target).figures
    known = marks_by_cycles(evaluation.program)
    inside, sums = _kernel_lines(source)
    found: dict[int, Mark] = {}
    calls_at = calls_by_line(source)
    for line in sorted(calls_at.keys() | sums):
        calls = calls_at.get(line, [])
        units = {unit for call in calls if (unit := unit_of(call)) and line in inside}
        units |= {"valu"} if line in sums else set[str]()
        busy = {unit: figures[unit] for unit in units if unit in figures and not known}
        if any(call.endswith(("BlockSpec", "make_async_copy")) for call in calls):
            busy["dma"] = figures.get("dma_stall", 0.0)
        if busy:
            unit = max(busy, key=lambda name: busy[name])
            found[line] = _mark(unit, busy[unit])
    return dict(sorted((found | known).items()))


def marks_by_cycles(program: ProgramTime) -> dict[int, Mark]:
    """Marks of the lines that the compiler named, over all kernels of the program."""
    kernels = [op for op in program.ops if op.kind == "kernel"]
    cycles = sum(op.cycles for op in kernels)
    found: dict[int, LineTime] = {}
    for line in (line for op in kernels for line in op.lines if line.file == SOURCE_FILE):
        before = found.get(line.line)
        if before is None or line.cycles > before.cycles:
            found[line.line] = line
    return {number: _line_mark(line, line.cycles / cycles) for number, line in found.items()}


def _line_mark(line: LineTime, share: float) -> Mark:
    heat = 3 if share >= _HOT_LINE else 2 if share >= _WARM_LINE else 1
    busiest = sorted(line.units, key=lambda unit: -line.units[unit])[:3]
    names = ", ".join(UNIT_NAMES.get(unit, unit) for unit in busiest)
    waits = f"; {line.stall_cycles / line.cycles:.0%} of them wait" if line.stall_cycles else ""
    return Mark(heat, f"{share:.0%}", f"{share:.1%} of the kernels' cycles: {names}{waits}")


def _mark(unit: str, share: float) -> Mark:
    heat = 3 if share >= _HOT else 2 if share >= _WARM else 1
    verb = "waited for" if unit == "dma" else "busy"
    name = UNIT_NAMES.get(unit, unit)
    return Mark(
        heat, f"{'hbm' if unit == 'dma' else unit} {share:.0%}", f"{name}: {verb} {share:.0%}"
    )


def _kernel_lines(source: str) -> tuple[set[int], set[int]]:
    """Lines of functions that run on the chip (kernel bodies, and what they call), and those of
    them that compute with operators."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return set(), set()
    functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    wanted = [name for node in ast.walk(tree) for name in _bodies(node)]
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in functions and name not in seen:
            seen.add(name)
            wanted += [n.id for n in ast.walk(functions[name]) if isinstance(n, ast.Name)]
    lines: set[int] = set()
    sums: set[int] = set()
    for node in (functions[name] for name in seen):
        lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        sums |= {line for statement in node.body for line in _operator_lines(statement)}
    return lines, sums


def _operator_lines(node: ast.AST) -> Iterator[int]:
    """Lines with arithmetic on values: not that of indices, which the scalar core does."""
    if isinstance(node, ast.Subscript):
        yield from _operator_lines(node.value)
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(
        ("pl.", "range", "jax.lax.fori")
    ):
        return
    if isinstance(node, ast.BinOp) and not isinstance(
        node.op, ast.MatMult | ast.FloorDiv | ast.Mod
    ):
        yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from _operator_lines(child)


def _bodies(node: ast.AST) -> list[str]:
    """Names of the functions that a `pallas_call` or pipeline runs."""
    if not isinstance(node, ast.Call) or not node.args:
        return []
    if not ast.unparse(node.func).endswith(("pallas_call", "emit_pipeline", "core_map")):
        return []
    return [n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)]
