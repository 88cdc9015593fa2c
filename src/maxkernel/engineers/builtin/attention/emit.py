"""The module of an attention kernel: arrays with heads first, the grid, and the way back."""

from __future__ import annotations

from maxkernel.engineers.builtin.attention.body import TAKEN, Plan, body, key_refs
from maxkernel.engineers.builtin.attention.match import Attention
from maxkernel.engineers.builtin.attention.prepare import prepare
from maxkernel.engineers.builtin.attention.sides import Side
from maxkernel.engineers.builtin.axes import Dim
from maxkernel.engineers.builtin.module import Module, Shapes, array_names, parameters
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import InputUse, Output, Program
from maxkernel.engineers.builtin.text import WIDTH, Names, call, compiler_params, doc, sequence
from maxkernel.types import TaskInfo, TunableSpace

FLATTEN = '''def flatten(x, block):
    """One slice per head, (heads, positions, width), zeros up to whole blocks."""
    x = x.reshape(-1, *x.shape[-2:])
    tail = -x.shape[1] % block
    return jnp.pad(x, ((0, 0), (0, tail), (0, 0))) if tail else x
'''
_EXTRA = '''def flatten_extra(x, rows, cols):
    """One slice per head, zeros up to (rows, cols)."""
    x = x.reshape(-1, *x.shape[-2:])
    tails = [(0, 0), (0, rows - x.shape[1]), (0, cols - x.shape[2])]
    return jnp.pad(x, tails) if any(tail for _, tail in tails) else x
'''
_OWN = tuple(
    "heads length key_count group shared out flatten flatten_extra unit lanes queries keys values "
    "rows width value_width q_heads block strips prepare_queries prepare_keys prepare_values "
    "update body key_block".split()
)


def attention_module(
    info: TaskInfo, a: Attention, band: bool, tunables: TunableSpace, vmem_limit: int, story: str
) -> str:
    """Source of one attention kernel."""
    names = Names([*TAKEN, *_OWN])
    arguments = parameters(info, Names(_OWN))
    arrays = tuple(array_names(info, arguments))
    module = Module("Flash attention.", story, tunables)
    extra_names = {e.term: names.new(f"{arrays[e.use.index]}_part") for e in a.read}
    plan = Plan(a, band, extra_names)
    text = body(plan, module)
    limit = f"{vmem_limit >> 20} * 2**20"
    module.constants["VMEM_LIMIT_BYTES"] = (limit, "keys and values of a head stay in VMEM")
    tall = "strips" if a.mask.causal else "blocks"
    module.constants["ROWS"] = ("16", f"of a tile: {tall} are whole tiles")
    if not a.mask.causal:
        module.constants["KEYS"] = ("1024", "of a block at most: its scores stay a few MiB")
        module.constants["LANES"] = ("128", "of a vector: blocks of keys lie along them")
    module.helpers.add(FLATTEN)
    kernel = _kernel(info, plan, arguments, arrays, tunables, module)
    module.functions += [text, kernel]
    return module.render()


def _kernel(
    info: TaskInfo,
    plan: Plan,
    arguments: list[str],
    arrays: tuple[str, ...],
    tunables: TunableSpace,
    module: Module,
) -> str:
    a = plan.attention
    everything = [a.program.input(t) for t in a.program.live() if a.program[t].op == "input"]
    shapes = Shapes(a.program, tuple(everything), arrays)
    defaults = [f"{name}={choices[0]}" for name, choices in tunables.items()]
    changed, named = prepare(a.program, _sides(a), arrays, module, a.read)
    read = zip(_sides(a), named, strict=True)
    q, *k, v = (heads_first(side, name, shapes) for (side, _), name in read)
    key_names = [ref.replace("k_", "keys_").removesuffix("_ref") for ref in key_refs(a)]
    wide = "block" if a.mask.causal else "key_block"
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("Heads and blocks of queries over a grid.", 4),
        *changed,
        f"    q_heads = {q}",
        "    length = q_heads.shape[-2]",
        f"    unit = {'ROWS * strips' if a.mask.causal else 'ROWS'}",
        "    block = min(block, pl.cdiv(length, unit) * unit)",
        "    queries = flatten(q_heads, block)",
        *_key_blocks(a, arrays),
        *(call("flatten", [x, wide], 4, f"{n} = ") for x, n in zip(k, key_names, strict=True)),
        call("flatten", [v, wide], 4, "values = "),
        "    heads, rows, width = queries.shape",
        "    value_width = values.shape[2]",
        "    lanes = pl.cdiv(value_width + 1, 128) * 128",
    ]
    if any(_grouped(a, side) for side in (a.k, a.v)) and not a.k.parts:
        lines.append("    group = heads // keys.shape[0]")
    passed = ["queries", *key_names, "values"]
    blocks = [("(1, block, width)", _head(a, a.q, ""), "i")]
    for side, name in zip((*(a.k.parts or [a.k]), a.v), passed[1:], strict=True):
        blocks.append((f"(1, *{name}.shape[1:])", _head(a, side, name), "0"))
    for extra in a.read:
        name = plan.names[extra.term]
        prepared, shape = _extra(extra, name, arrays[extra.use.index], shapes, module)
        lines += [f"    {line}" for line in prepared]
        blocks.append((shape, _head(a, extra, name), "i" if extra.rows else "0"))
        passed.append(name)
    bound = ["body", *(["strips=strips"] if a.mask.causal else [])]
    if a.mask.window is not None:
        bound.append(f"window={_window(info, a.mask.window, arguments, module)}")
    if not a.mask.causal:
        bound += ["key_count=key_count", "key_block=key_block"]
    grid, kinds = "(heads, rows // block)", ["parallel", "arbitrary"]
    if a.shared is not None:
        shared = f"{plan.names[a.shared.term]}.shape[0]"
        lines.append(f"    shared = {shared}")
        grid, kinds = "(shared, rows // block, heads // shared)", ["parallel", *kinds]
    out = _spec(a, ("(1, block, value_width)", _head(a, a.q, ""), "i"), 8, "out_specs=")
    dtype = f"jnp.{a.output.dtype}"
    scratch = ["pltpu.VMEM((values.shape[1], lanes), values.dtype)"]
    if a.k.parts:
        scratch.append(f"pltpu.VMEM((values.shape[1], width), {key_names[0]}.dtype)")
    parts = [
        f"functools.partial({', '.join(bound)})",
        f"grid={grid}",
        sequence([_spec(a, block, 12) for block in blocks], 8, "in_specs="),
        out,
        f"out_shape=jax.ShapeDtypeStruct((heads, rows, value_width), {dtype})",
        sequence(scratch, 8, "scratch_shapes="),
        compiler_params(kinds),
    ]
    lines.append(call("pl.pallas_call", parts, 4, "out = ") + f"({', '.join(passed)})")
    lines += [f"    {line}" for line in restored(a.program, a.q, a.result, a.output)]
    return "\n".join(lines)


def _sides(a: Attention) -> list[tuple[Side, str]]:
    keys = [(part, "keys") for part in a.k.parts] or [(a.k, "keys")]
    return [(a.q, "queries"), *keys, (a.v, "values")]


def _spec(a: Attention, block: tuple[str, str, str], indent: int, prefix: str = "") -> str:
    shape, head, row = block
    if not shape:
        return f"{prefix}pl.BlockSpec(memory_space=pltpu.SMEM)"
    grid = "h, i" if a.shared is None else "h, i, b"
    return call("pl.BlockSpec", [shape, f"lambda {grid}: ({head}, {row}, 0)"], indent, prefix)


def _grouped(a: Attention, side: Side) -> bool:
    fewer = a.program.extent(side.heads) < a.program.extent(a.heads)
    return side.share == "outer" and fewer


def _head(a: Attention, side: Side, name: str) -> str:
    """The slice that a step of the grid reads."""
    head, level = ("h", False) if a.shared is None else ("b * shared + h", True)
    if side is a.shared:
        return "h"
    if side.share == "inner":
        return f"({head}) % {name}.shape[0]" if level else f"{head} % {name}.shape[0]"
    if not _grouped(a, side):
        return head
    one_group = name in ("keys", "values") and not a.k.parts
    group = "group" if one_group else f"(heads // {name}.shape[0])"
    return f"({head}) // {group}" if level else f"{head} // {group}"


def _key_blocks(a: Attention, arrays: tuple[str, ...]) -> list[str]:
    """Where every key is visible, blocks of keys need not be those of queries."""
    if a.mask.causal:
        return []
    return [
        f"    key_count = {_key_count(a, arrays[a.k.use.index])}",
        "    key_block = min(KEYS, pl.cdiv(key_count, LANES) * LANES)",
    ]


def _key_count(a: Attention, name: str) -> str:
    """The number of keys, wherever they lie."""
    if a.k.rows in a.k.use.dims:
        return f"{name}.shape[{a.k.use.dims.index(a.k.rows)}]"
    return str(a.program.extent(a.k.rows))


def _window(info: TaskInfo, window: int, arguments: list[str], module: Module) -> str:
    """The window as the argument that holds it, or as a constant."""
    for position, value in info.statics.items():
        if value == window:
            return arguments[position]
        if value == window - 1:
            return f"{arguments[position]} + 1"
    module.constants["WINDOW"] = (str(window), "keys that a query sees, its own among them")
    return "WINDOW"


def heads_first(side: Side, name: str, shapes: Shapes) -> str:
    """An input with its heads first, then its positions and columns."""
    return ordered(side.use, name, (*((x,) for x in side.heads), side.rows, side.cols), shapes)


def ordered(use: InputUse, name: str, wanted: tuple[Dim, ...], shapes: Shapes) -> str:
    """An array whose dimensions of size 1 come first, then `wanted` in order."""
    dims = list(use.dims)
    wanted = tuple(w for w in wanted if w)
    together = [w for w in wanted if w in dims]
    if sorted(flat(together)) != sorted(flat(dims)) or len(together) != len([d for d in dims if d]):
        parts = [p for d in dims for p in (_split(d, wanted) if d else [()])]
        sizes = ", ".join(
            f"{name}.shape[{dims.index(p)}]" if p in dims else shapes.dim(p) for p in parts
        )
        name, dims = f"{name}.reshape({sizes})", parts
    order = [i for i, d in enumerate(dims) if not d] + [dims.index(w) for w in wanted]
    if order == list(range(len(dims))):
        return name
    return f"{name}.transpose({', '.join(map(str, order))})"


def _split(dim: Dim, wanted: tuple[Dim, ...]) -> list[Dim]:
    """A dimension in pieces, each of which is wanted as a whole."""
    parts: list[Dim] = []
    while dim:
        part = next((w for w in wanted if dim[: len(w)] == w), dim[:1])
        parts.append(part)
        dim = dim[len(part) :]
    return parts


def _extra(
    extra: Side, name: str, array: str, shapes: Shapes, module: Module
) -> tuple[list[str], str]:
    """(statements, block shape) for an array that the score reads; no shape for scalars."""
    text = heads_first(extra, array, shapes)
    if not extra.rows and not extra.cols:
        kind = "int32" if "int" in extra.use.dtype or extra.use.dtype == "bool" else "float32"
        return [f"{name} = {text}.reshape(-1).astype(jnp.{kind})"], ""
    module.helpers.add(_EXTRA)
    if extra.use.dtype == "bool":
        text = f"{text}.astype(jnp.int8)"
    if not extra.cols:
        text = f"{text}[..., None]"
    elif not extra.rows:
        text = f"{text}[..., None, :]"
    sizes = ["rows" if extra.rows else "1", "keys.shape[1]" if extra.cols else "1"]
    shape = f"(1, {'block' if extra.rows else '1'}, {sizes[1]})"
    return [f"{name} = flatten_extra({text}, {', '.join(sizes)})"], shape


def restored(program: Program, q: Side, result: tuple[Dim, Dim, Dim], output: Output) -> list[str]:
    """From (heads ..., positions, width) to the output's own dimensions."""
    heads, rows, cols = result
    ones = sum(1 for d in q.use.dims if not d)
    lies: list[Dim] = [() for _ in range(ones)]
    lies += [(x,) for x in heads] + [rows, cols]
    dims = list(output.dims)
    text = "out[:, :length].reshape(*q_heads.shape[:-1], value_width)"
    flat_wanted = [d for d in dims if d]
    parts = [p for d in flat_wanted for p in _split(d, tuple(x for x in lies if x))]
    order = [i for i, d in enumerate(lies) if not d] + [lies.index(p) for p in parts]
    same_ones = ones == sum(1 for d in dims if not d)
    if same_ones and parts == flat_wanted:
        free = [i for i, d in enumerate(lies) if not d]
        order = [lies.index(d) if d else free.pop(0) for d in dims]
    if order != list(range(len(lies))):
        text += f".transpose({', '.join(map(str, order))})"
    lines: list[str] = []
    if len(text) > WIDTH - 11:
        text = text.replace("out[:, :length]", "out")
        lines.append("out = out[:, :length]")
    if not same_ones or parts != flat_wanted:
        sizes = ", ".join(_output_sizes(result, output, ones))
        return [*lines, f"out = {text}", f"return out.reshape({sizes})"]
    return [*lines, f"return {text}"]


def _output_sizes(result: tuple[Dim, Dim, Dim], output: Output, ones: int) -> list[str]:
    """Sizes of the output's dimensions at run time; the largest follows from the others."""
    heads, rows, cols = result
    names = {rows: "length", cols: "value_width"}
    names |= {(axis,): f"q_heads.shape[{ones + i}]" for i, axis in enumerate(heads)}
    texts = [" * ".join(names[p] for p in _split(d, tuple(names))) or "1" for d in output.dims]
    widest = max(range(len(texts)), key=lambda i: len(texts[i]))
    return [*texts[:widest], "-1", *texts[widest + 1 :]]
