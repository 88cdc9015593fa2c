"""The module of a recurrence: chunks and heads as a grid, and what stands around it as jnp code."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec.structs import replace

from maxkernel.engineers.builtin.cuts import is_zero, without_repeats
from maxkernel.engineers.builtin.module import Module, array_names, parameters
from maxkernel.engineers.builtin.recurrence.around import CHUNK, Around
from maxkernel.engineers.builtin.recurrence.arrays import operand, result
from maxkernel.engineers.builtin.recurrence.body import write_body
from maxkernel.engineers.builtin.recurrence.calling import Call
from maxkernel.engineers.builtin.recurrence.match import Recurrence, match
from maxkernel.engineers.builtin.recurrence.sinking import sunk
from maxkernel.engineers.builtin.text import Names, add_return, call, doc
from maxkernel.types import Node, TaskInfo, TunableSpace

_OWN = ("heads", "total", "count", "body", "solve", "product", "running_sum", CHUNK)


def recurrence_module(info: TaskInfo, tunables: TunableSpace, vmem_limit: int, story: str) -> str:
    """Source of one recurrence; raises Unsupported."""
    info = without_repeats(info)
    info = replace(info, graph=sunk(info.graph))
    loop = match(info.graph)
    module = Module("A recurrence over chunks.", story, tunables)
    names = Names(_OWN)
    arguments = parameters(info, names)
    arrays = array_names(info, arguments)
    constants = {arguments[i]: value for i, value in info.statics.items()}
    around = Around(info.graph, arrays, names, constants, loop)
    module.constants[CHUNK] = (str(around.chunk), "positions of a chunk, as in the reference")
    module.constants["VMEM_LIMIT_BYTES"] = (f"{vmem_limit >> 20} * 2**20", "")
    zero = {
        i
        for i in range(len(loop.one.inputs))
        if loop.is_state(i) and is_zero(info.graph.values, around.made, loop.loop.inputs[i])
    }
    hints = [_hint(info, loop, around.made, i) for i in range(len(loop.one.inputs))]
    arrays = {i: operand(loop, around, i) for i in range(len(loop.one.inputs))}
    results = [result(loop, around, i) for i in range(len(loop.one.outputs))]
    turned = {array.value for array in (*arrays.values(), *results) if array.is_turned}
    body = write_body(loop, hints, zero, turned, around.chunk)
    module.helpers |= body.helpers
    defaults = [f"{name}={choices[0]}" for name, choices in tunables.items()]
    Call(loop, around, body, arrays, results, names).write()
    returned = ", ".join(around.result(v) for v in info.graph.outputs)
    add_return(around.lines, returned)
    text = "\n".join(
        [
            call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
            doc("Heads and batches side by side, chunks one after another.", 4),
            *(f"    {line}".rstrip() for part in around.lines for line in part.split("\n")),
        ]
    )
    module.functions += [body.source, text]
    return module.render()


def _hint(info: TaskInfo, loop: Recurrence, made: Mapping[int, Node], position: int) -> str:
    """A name for an operand of the loop: that of the largest input that it is made of."""
    graph = info.graph
    if loop.is_state(position):
        return "state"
    seen, queue = set[int](), [loop.loop.inputs[position]]
    while queue:
        value = queue.pop()
        if value not in seen:
            seen.add(value)
            queue += made[value].inputs if value in made else ()
    own = [v for v in graph.inputs if v in seen]
    if not own:
        return "operand"
    largest = max(own, key=lambda v: math.prod(graph.values[v].shape))
    return info.input_names[graph.inputs.index(largest)]
