"""Source of a recurrence's body: Refs, stores, and the statements between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from maxkernel.engineers.builtin.lines import fitted
from maxkernel.engineers.builtin.recurrence import placing
from maxkernel.engineers.builtin.recurrence.heads import head_loops
from maxkernel.engineers.builtin.recurrence.match import Recurrence
from maxkernel.engineers.builtin.recurrence.writer import Writer
from maxkernel.engineers.builtin.text import Names, call, doc

RESERVED = tuple("h solve product products running_sum begin parts solutions".split())


@dataclass
class Body:
    """A kernel's body: `source`, and the Refs that it takes, by positions of the loop's operands
    (`operands`; those of states that begin at zero are missing) and of its results."""

    source: str
    operands: list[int]
    names: list[str]
    """Of the loop's operands, as in `source`."""
    helpers: set[str] = field(default_factory=set[str])


def write_body(
    loop: Recurrence, hints: list[str], zero: set[int], turned: set[int], chunk: int
) -> Body:
    """The body. `hints`: names for the loop's operands; `zero`: positions of states that begin at
    zero; `turned`: operands and results whose matrices are there with their columns first."""
    names = Names(RESERVED)
    inputs = [names.new(hint) for hint in hints]
    results = [
        names.new("out" if i >= loop.carried else f"{inputs[loop.fixed + i]}_out")
        for i in range(len(loop.one.outputs))
    ]
    writer = Writer(loop, names, chunk, bool(turned))
    read = {v for node in writer.live for v in node.inputs}
    operands = [
        i
        for i, v in enumerate(loop.one.inputs)
        if (i not in zero if loop.is_state(i) else v in read)
    ]
    loads: dict[str, list[str]] = {"rows": [], "shared": [], "head": []}
    for i, value in enumerate(loop.one.inputs):
        if value in read:
            state = results[i - loop.fixed] if loop.is_state(i) else ""
            _load(writer, value, inputs[i], f"{state or inputs[i]}_ref", loads, value in turned)
    writer.run()
    stores: list[str] = []
    whole_stores: list[str] = []
    for name, value in zip(results, loop.one.outputs, strict=True):
        _store(writer, value, f"{name}_ref", stores, whole_stores, value in turned)
    refs = [f"{inputs[i]}_ref" for i in operands] + [f"{name}_ref" for name in results]
    lines = [
        call("body", refs, 0, "def ", ":"),
        doc("One chunk of a few heads; states stay in VMEM from chunk to chunk.", 4),
        *_begin(loop, inputs, results, zero),
        *(f"    {line}" for line in (*loads["shared"], *writer.lines["shared"])),
        *(f"    {line}" for line in (*loads["rows"], *writer.lines["vectors"])),
        *(f"    {line}" for line in whole_stores),
    ]
    lines += head_loops(writer, loads["head"], stores, results[0])
    text = "\n".join(fitted(line) for line in lines)
    return Body(text, operands, inputs, writer.helpers)


def _begin(loop: Recurrence, inputs: list[str], results: list[str], zero: set[int]) -> list[str]:
    """Statements that set the states before the first chunk."""
    lines = ["", f"    @pl.when(pl.program_id({len(loop.chosen)}) == 0)", "    def begin():"]
    for i in range(loop.carried):
        ref, first = f"{results[i]}_ref", f"{inputs[loop.fixed + i]}_ref[...]"
        if loop.fixed + i in zero:
            first = f"jnp.zeros({ref}.shape, {ref}.dtype)"
        lines.append(f"        {ref}[...] = {first}")
    return [*lines, ""]


def _load(
    w: Writer, value: int, name: str, ref: str, loads: dict[str, list[str]], turned: bool
) -> None:
    shape = w.shape(value)
    layout = placing.plain(placing.default(shape), shape)
    layout = placing.turned(layout) if turned else layout
    if not w.per_head(value):
        w.known[value] = name, layout
        loads["shared"].append(f"{name} = {ref}[...]")
    elif len(shape) == 2:
        w.known[value] = name, layout
        loads["head"].append(f"{name} = {ref}[h]")
    else:
        loads["rows"].append(f"{name} = {ref}[...]")
        w.row_input(value, name)


def _store(
    w: Writer, value: int, ref: str, stores: list[str], whole_stores: list[str], turned: bool
) -> None:
    if value in w.rows:
        whole_stores.append(f"{ref}[...] = {w.rows[value].text}")
        return
    layout = placing.default(w.shape(value))
    layout = placing.turned(layout) if turned else layout
    code = w.whole(value, layout)
    where = "h" if len(layout) == 2 and layout[0] is not None else "h : h + 1"
    stores.append(f"{ref}[{where}] = {code.text}")
