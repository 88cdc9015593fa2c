"""The module of grouped products: one kernel per stage, and what joins them."""

from __future__ import annotations

from maxkernel.engineers.builtin.grouped.body import (
    APART,
    OWN_ROWS,
    WORK_LIST,
    body,
    multiply,
    stage_names,
)
from maxkernel.engineers.builtin.grouped.coded import Coded
from maxkernel.engineers.builtin.grouped.decode import decoding
from maxkernel.engineers.builtin.grouped.match import Stage
from maxkernel.engineers.builtin.module import Module, array_names, parameters
from maxkernel.engineers.builtin.text import Names, add_return, call, doc, statement
from maxkernel.engineers.builtin.xla import Writer
from maxkernel.types import TaskInfo, TunableSpace

_OWN = ("block_rows", "work_list", "own_rows", "apart", "multiply", "pl", "jnp", "jax")


def grouped_module(
    info: TaskInfo, stages: list[Stage], tunables: TunableSpace, vmem_limit: int, story: str
) -> str:
    """Source of a program whose grouped products are kernels."""
    arguments = parameters(info, Names([*_OWN, *tunables]))
    module = Module("Grouped matrix products.", story, tunables)
    module.constants["VMEM_LIMIT_BYTES"] = (
        f"{vmem_limit >> 20} * 2**20",
        "a group's block of weights is held twice",
    )
    module.helpers |= {WORK_LIST, OWN_ROWS}
    if any(stage.apart for stage in stages):
        module.helpers.add(APART)
        module.constants["LANES"] = ("128", "columns of a vector register")
    made: dict[str, str] = {}
    for i, stage in enumerate(stages):
        body_name, name = stage_names(len(stages), i)
        decoders = [_decoder(coded, made, module) for coded in stage.coded if coded]
        text = body(stage, body_name, decoders, module)
        module.functions += [text, multiply(stage, name, body_name)]
    module.functions.append(_kernel(info, stages, arguments, tunables))
    return module.render()


def _decoder(coded: Coded, made: dict[str, str], module: Module) -> str:
    """The name of the function that decodes such weights; equal ones are written once."""
    text = decoding(coded, "decode", module)
    if text not in made:
        made[text] = f"decode_{len(made) + 1}" if made else "decode"
        module.functions.append(decoding(coded, made[text], module))
    return made[text]


def _arrays(info: TaskInfo, stage: Stage, writer: Writer) -> list[str]:
    """What a stage's kernel reads beside its rows: weights, or their codes and scales."""
    graph, found = info.graph, list[str]()
    for weights, coded in zip(stage.weights, stage.coded, strict=True):
        if coded is None:
            found.append(writer.value(weights))
            continue
        arrays = (coded.codes, *(array for _, array in coded.runs))
        found += [writer.value(graph.inputs[array]) for array in arrays]
    return found


def _kernel(
    info: TaskInfo, stages: list[Stage], arguments: list[str], tunables: TunableSpace
) -> str:
    arrays = array_names(info, arguments)
    names = Names([*_OWN, *tunables, *arguments])
    constants = {arguments[i]: value for i, value in info.statics.items()}
    writer = Writer(info.graph, arrays, names, constants)
    defaults = [f"{name}={choices[0]}" for name, choices in tunables.items()]
    lists: dict[tuple[int, int], str] = {}
    for i, stage in enumerate(stages):
        _, name = stage_names(len(stages), i)
        rows, sizes = writer.value(stage.rows), writer.value(stage.sizes)
        weights = _arrays(info, stage, writer)
        extras = [_extra(writer.value(x.value), x.role) for x in stage.epilogue.extras]
        key = stage.sizes, info.graph.values[stage.rows].shape[0]
        if key not in lists:
            lists[key] = names.new("visits")
            call_of = f"work_list({sizes}, {rows}.shape[0], block_rows)"
            writer.lines.append(f"{lists[key]} = {call_of}")
        columns = _columns(len(stages), i)
        passed = [lists[key], rows, *weights, *extras, "block_rows", columns]
        result = names.new("result" if len(stages) == 1 else f"result_{i + 1}")
        writer.lines.append(statement(name, passed, result))
        writer.known[stage.result] = result
    returned = ", ".join(writer.result(v) for v in info.graph.outputs)
    add_return(writer.lines, returned)
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("Grouped products in kernels of their own; the rest is left to XLA.", 4),
        *(f"    {line}" for text in writer.lines for line in text.split("\n")),
    ]
    return "\n".join(lines)


def _extra(name: str, role: str) -> str:
    return {"row": f"{name}.reshape(-1, 1)", "col": f"{name}.reshape(1, -1)"}.get(role, name)


def _columns(count: int, stage: int) -> str:
    return f"block_columns_{stage + 1}" if count > 1 else "block_columns"
