"""The module of an attention kernel: arrays with heads first, the grid, and the way back."""

from __future__ import annotations

from maxkernel.engineers.builtin.attention.body import TAKEN, Plan, body, grouped, key_refs
from maxkernel.engineers.builtin.attention.match import Attention
from maxkernel.engineers.builtin.attention.order import FLATTEN, heads_first, restored
from maxkernel.engineers.builtin.attention.prepare import prepare
from maxkernel.engineers.builtin.attention.sides import Side
from maxkernel.engineers.builtin.attention.stream import fetched
from maxkernel.engineers.builtin.attention.walk import Walk
from maxkernel.engineers.builtin.module import Module, Shapes, array_names, parameters
from maxkernel.engineers.builtin.text import Names, call, compiler_params, doc, sequence
from maxkernel.types import TaskInfo, TunableSpace

_EXTRA = '''def flatten_extra(x, rows, cols):
    """One slice per head, zeros up to (rows, cols)."""
    x = x.reshape(-1, *x.shape[-2:])
    tails = [(0, 0), (0, rows - x.shape[1]), (0, cols - x.shape[2])]
    return jnp.pad(x, tails) if any(tail for _, tail in tails) else x
'''
OWN = tuple(
    "heads length key_count group shared out flatten flatten_extra unit lanes queries keys values "
    "rows width value_width q_heads block strips prepare_queries prepare_keys prepare_values "
    "update body key_block".split()
)


def attention_module(
    info: TaskInfo, a: Attention, walk: Walk, tunables: TunableSpace, vmem_limit: int, story: str
) -> str:
    """Source of one attention kernel."""
    names = Names([*TAKEN, *OWN])
    arguments = parameters(info, Names(OWN))
    arrays = tuple(array_names(info, arguments))
    module = Module("Flash attention.", story, tunables)
    extra_names = {e.term: names.new(f"{arrays[e.use.index]}_part") for e in a.read}
    plan = Plan(a, walk, extra_names)
    text = body(plan, module)
    limit = f"{vmem_limit >> 20} * 2**20"
    held = "" if plan.streams else "keys and values of a head stay in VMEM"
    module.constants["VMEM_LIMIT_BYTES"] = (limit, held)
    tall = "strips" if plan.strips else "blocks"
    module.constants["ROWS"] = ("16", f"of a tile: {tall} are whole tiles")
    if not (a.mask.causal or plan.streams):
        module.constants["KEYS"] = ("1024", "of a block at most: its scores stay a few MiB")
    if plan.streams or not a.mask.causal:
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
    defaults = [f"{name}={choices[0]}" for name, choices in tunables.items()]
    shapes, changed, (q, *k, v) = arranged(a, arrays, module)
    key_names = [ref.replace("k_", "keys_").removesuffix("_ref") for ref in key_refs(a)]
    wide = "block" if plan.strips else "key_block"
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("Heads and blocks of queries over a grid.", 4),
        *changed,
        f"    q_heads = {q}",
        "    length = q_heads.shape[-2]",
        f"    unit = {'ROWS * strips' if plan.strips else 'ROWS'}",
        "    block = min(block, pl.cdiv(length, unit) * unit)",
        "    queries = flatten(q_heads, block)",
        *_key_blocks(plan, arrays),
        *(call("flatten", [x, wide], 4, f"{n} = ") for x, n in zip(k, key_names, strict=True)),
        call("flatten", [v, wide], 4, "values = "),
        "    heads, rows, width = queries.shape",
        "    value_width = values.shape[2]",
        "    lanes = pl.cdiv(value_width + 1, 128) * 128",
    ]
    if any(grouped(a, side) for side in (a.k, a.v)) and not a.k.parts:
        lines.append("    group = heads // keys.shape[0]")
    passed = ["queries", *key_names, "values"]
    bound = ["body", *(["strips=strips"] if plan.strips else [])]
    window = ""
    if a.mask.window is not None:
        window = _window(info, a.mask.window, arguments, module)
        bound.append(f"window={window}")
    if not a.mask.causal:
        bound += ["key_count=key_count", *([] if plan.streams else ["key_block=key_block"])]
    keys = "0"
    if plan.streams:
        keys, seen = fetched(a, window)
        lines += seen
    blocks = [("(1, block, width)", _head(a, a.q, ""), "i", "0")]
    for side, name in zip((*(a.k.parts or [a.k]), a.v), passed[1:], strict=True):
        tall = f"key_block, {name}.shape[2]" if plan.streams else f"*{name}.shape[1:]"
        blocks.append((f"(1, {tall})", _head(a, side, name), keys, "0"))
    for extra in a.read:
        name = plan.names[extra.term]
        prepared, shape = extra_array(extra, name, arrays[extra.use.index], shapes, module)
        lines += [f"    {line}" for line in prepared]
        if plan.streams:
            shape = shape.replace("keys.shape[1]", "key_block")
        col = keys if extra.cols else "0"
        blocks.append((shape, _head(a, extra, name), "i" if extra.rows else "0", col))
        passed.append(name)
    grid, kinds = "(heads, rows // block)", ["parallel", "arbitrary"]
    if a.shared is not None:
        shared = f"{plan.names[a.shared.term]}.shape[0]"
        lines.append(f"    shared = {shared}")
        grid, kinds = "(shared, rows // block, heads // shared)", ["parallel", *kinds]
    scratch = ["pltpu.VMEM((values.shape[1], lanes), values.dtype)"]
    if plan.streams:
        grid, kinds = "(heads, rows // block, values.shape[1] // key_block)", [*kinds, "arbitrary"]
        scratch = [
            "pltpu.VMEM((key_block, lanes), values.dtype)",
            "pltpu.VMEM((block, 1), jnp.float32)",
            "pltpu.VMEM((block, lanes), jnp.float32)",
        ]
    result = ("(1, block, value_width)", _head(a, a.q, ""), "i", "0")
    out = _spec(plan, result, 8, "out_specs=")
    dtype = f"jnp.{a.output.dtype}"
    if a.k.parts:
        scratch.append(f"pltpu.VMEM((values.shape[1], width), {key_names[0]}.dtype)")
    parts = [
        f"functools.partial({', '.join(bound)})" if len(bound) > 1 else "body",
        f"grid={grid}",
        sequence([_spec(plan, block, 12) for block in blocks], 8, "in_specs="),
        out,
        f"out_shape=jax.ShapeDtypeStruct((heads, rows, value_width), {dtype})",
        sequence(scratch, 8, "scratch_shapes="),
        compiler_params(kinds),
    ]
    lines.append(call("pl.pallas_call", parts, 4, "out = ") + f"({', '.join(passed)})")
    lines += [f"    {line}" for line in restored(a.program, a.q, a.result, a.output)]
    return "\n".join(lines)


def arranged(
    a: Attention, arrays: tuple[str, ...], module: Module
) -> tuple[Shapes, list[str], list[str]]:
    """Shapes of all inputs, statements that prepare arrays, and queries, keys and values with
    their heads first."""
    everything = [a.program.input(t) for t in a.program.live() if a.program[t].op == "input"]
    shapes, sides = Shapes(a.program, tuple(everything), arrays), _sides(a)
    changed, named = prepare(a.program, sides, arrays, module, a.read)
    read = zip(sides, named, strict=True)
    return shapes, changed, [heads_first(side, name, shapes) for (side, _), name in read]


def _sides(a: Attention) -> list[tuple[Side, str]]:
    keys = [(part, "keys") for part in a.k.parts] or [(a.k, "keys")]
    return [(a.q, "queries"), *keys, (a.v, "values")]


def _spec(plan: Plan, block: tuple[str, str, str, str], indent: int, prefix: str = "") -> str:
    shape, head, row, col = block
    if not shape:
        return f"{prefix}pl.BlockSpec(memory_space=pltpu.SMEM)"
    grid = "h, i, j" if plan.streams else "h, i" if plan.attention.shared is None else "h, i, b"
    return call("pl.BlockSpec", [shape, f"lambda {grid}: ({head}, {row}, {col})"], indent, prefix)


def _head(a: Attention, side: Side, name: str) -> str:
    """The slice that a step of the grid reads."""
    head, level = ("h", False) if a.shared is None else ("b * shared + h", True)
    if side is a.shared:
        return "h"
    if side.share == "inner":
        return f"({head}) % {name}.shape[0]" if level else f"{head} % {name}.shape[0]"
    if not grouped(a, side):
        return head
    one_group = name in ("keys", "values") and not a.k.parts
    group = "group" if one_group else f"(heads // {name}.shape[0])"
    return f"({head}) // {group}" if level else f"{head} // {group}"


def _key_blocks(plan: Plan, arrays: tuple[str, ...]) -> list[str]:
    """Where every key is visible, blocks of keys need not be those of queries."""
    if plan.strips:
        return []
    a, most = plan.attention, "key_block" if plan.streams else "KEYS"
    return [
        f"    key_count = {key_count(a, arrays[a.k.use.index])}",
        f"    key_block = min({most}, pl.cdiv(key_count, LANES) * LANES)",
    ]


def key_count(a: Attention, name: str) -> str:
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


def extra_array(
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
