"""The module of an update: blocks of units, vectors beside them, and what XLA does around."""

from __future__ import annotations

from collections.abc import Sequence

from maxkernel.engineers.builtin.module import Module, Shapes, array_names, parameters
from maxkernel.engineers.builtin.terms import InputUse
from maxkernel.engineers.builtin.text import Names
from maxkernel.engineers.builtin.updates import calling
from maxkernel.engineers.builtin.updates.body import TAKEN, Block, body, label
from maxkernel.engineers.builtin.updates.calling import Frame, direct, kernel
from maxkernel.engineers.builtin.updates.match import Update
from maxkernel.types import TaskInfo, TunableSpace

_STORY = (
    "Every matrix is read once and written once; sums over its rows or columns and what is\n"
    "made of them stay in VMEM."
)


def module_text(info: TaskInfo, update: Update, tunables: TunableSpace, vmem_limit: int) -> str:
    """Source of one update."""
    program = update.program
    names = Names(calling.TAKEN)
    arguments = parameters(info, names)
    arrays = tuple(array_names(info, arguments))
    module = Module("Updates of matrices, one per unit (a sequence's head).", _STORY, tunables)
    uses = tuple(program.input(t) for t in program.live() if program[t].op == "input")
    uses = (update.anchor, *(use for use in uses if use != update.anchor))
    inner = Names([*TAKEN, *(f"{arrays[use.index]}_ref" for use in _taken(update))])
    reads = [_read(update, term, arrays, inner) for term in update.brought()]
    results = _results(update, inner)
    text = body(update, reads, results, module)
    module.constants["VMEM_LIMIT_BYTES"] = (
        f"{vmem_limit >> 20} * 2**20",
        "two buffers per block, and values",
    )
    shapes = Shapes(program, uses, arrays)
    frame = Frame(update, shapes, arguments, arrays, reads, results)
    module.functions = [text, kernel(frame, tunables, names, module)]
    return module.render()


def _taken(update: Update) -> list[InputUse]:
    """Inputs that the kernel reads as they lie."""
    program = update.program
    mine = [t for t in update.brought() if program[t].op == "input"]
    return [program.input(t) for t in mine if t not in update.around]


def _read(update: Update, term: int, arrays: Sequence[str], names: Names) -> Block:
    program = update.program
    if program[term].op == "input" and term not in update.around:
        use = program.input(term)
        return Block(term, f"{arrays[use.index]}_ref", use.dtype)
    dtype = {"int": "int32", "bool": "bool"}.get(program[term].kind, "float32")
    return Block(term, names.new(f"{label(update, term)}_ref"), dtype)


def _results(update: Update, names: Names) -> list[Block]:
    single = len(update.results) == 1
    return [
        Block(term, names.new("out_ref" if single else f"out_{i}_ref"), _stored(update, term))
        for i, term in enumerate(update.results)
    ]


def _stored(update: Update, term: int) -> str:
    """The dtype of a result: its output's, where nothing else is made of it."""
    program = update.program
    outputs = [o for o in program.outputs if o.term == term]
    read = any(term in program[t].args for t in update.after)
    plain = not read and all(direct(update, o) for o in outputs)
    if plain and len({o.dtype for o in outputs}) == 1:
        return outputs[0].dtype
    return "int32" if program[term].kind == "int" else "float32"
