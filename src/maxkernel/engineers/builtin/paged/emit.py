"""The module of a paged decode kernel."""

from __future__ import annotations

from maxkernel.engineers.builtin.module import Module, array_names, parameters
from maxkernel.engineers.builtin.paged.body import body
from maxkernel.engineers.builtin.paged.match import Decode, Pool
from maxkernel.engineers.builtin.text import Names, broken, call, compiler_params, doc, sequence
from maxkernel.engineers.builtin.xla import Writer
from maxkernel.types import TaskInfo, TunableSpace

_OWN = tuple(
    "sequences table_pages page kv_heads block block_pages queries group missing keys values out "
    "out_shape by_head attended".split()
)


def decode_module(
    info: TaskInfo, d: Decode, tunables: TunableSpace, vmem_limit: int, story: str
) -> str:
    """Source of one paged decode kernel."""
    arguments = parameters(info, Names(_OWN))
    module = Module("Paged decode attention.", story, tunables)
    module.constants["HIDDEN"] = ("-1e30", "score of a position beyond the length")
    module.constants["NT"] = ("(((1,), (1,)), ((), ()))", "both operands contracted by columns")
    module.constants["UNROLL"] = ("8", "pages whose copies are issued per trip of a loop")
    module.constants["VMEM_LIMIT_BYTES"] = (f"{vmem_limit >> 20} * 2**20", "")
    if d.values.columns is not None:
        module.constants["VALUE_WIDTH"] = (
            str(d.values.columns),
            "columns of a row that are values",
        )
    if d.group % 8:
        module.constants["SUBLANES"] = ("8", "queries of a head fill whole tiles")
    module.functions += [body(d, module), _kernel(info, d, arguments, tunables)]
    return module.render()


def _kernel(info: TaskInfo, d: Decode, arguments: list[str], tunables: TunableSpace) -> str:
    arrays = array_names(info, arguments)
    constants = {arguments[i]: value for i, value in info.statics.items()}
    writer = Writer(info.graph, arrays, Names([*_OWN, *arguments]), constants)
    q = writer.value(d.computed) if d.computed is not None else arrays[d.queries.index]
    before, writer.lines = writer.lines, []
    table, lengths = arrays[d.table], arrays[d.lengths.index]
    pools = [(arrays[p.use.index], p) for p in ([d.keys] if d.shared else [d.keys, d.values])]
    name, pool = pools[0]
    heads = f"{name}.shape[{pool.head}]" if pool.head is not None else "1"
    defaults = [f"{name}={choices[0]}" for name, choices in tunables.items()]
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("One step of the grid per sequence; the pools stay in HBM.", 4),
        *(f"    {line}" for text in before for line in text.split("\n")),
        f"    sequences, table_pages = {table}.shape",
        f"    page, kv_heads = {name}.shape[{pool.slot}], {heads}",
        "    block = min(block_pages, table_pages)",
        f"    queries = {q}.reshape(sequences, kv_heads, -1, {q}.shape[-1])",
    ]
    padded = d.group % 8 != 0
    if padded:
        lines += [
            "    group = queries.shape[2]",
            "    missing = -group % SUBLANES",
            "    queries = jnp.pad(queries, ((0, 0), (0, 0), (0, missing), (0, 0)))",
        ]
    labels = ("keys", "values")
    passed = [_cast(lengths, d.lengths.dtype), _cast(table, info.inputs[d.table].dtype), "queries"]
    for label, (array, p) in zip(labels, pools, strict=False):
        lines += [f"    {line}" for line in _records(label, array, p)]
        passed.append(label)
    values = "keys" if d.shared else "values"
    step = "lambda s, *_: (s, 0, 0, 0)"
    buffers = [_buffer(label, p) for label, (_, p) in zip(labels, pools, strict=False)]
    scratch = [
        *buffers,
        f"pltpu.SemaphoreType.DMA((2, {len(pools)}))",
        "pltpu.SMEM((1,), jnp.int32)",
    ]
    in_specs = [f"pl.BlockSpec((1, *queries.shape[1:]), {step})"]
    in_specs += ["pl.BlockSpec(memory_space=pl.ANY)"] * len(pools)
    width = "VALUE_WIDTH" if d.values.columns is not None else f"{values}.shape[-1]"
    out_shape = f"(*queries.shape[:3], {width})"
    grid = [
        "num_scalar_prefetch=2",
        "grid=(sequences,)",
        sequence(in_specs, 12, "in_specs="),
        f"out_specs=pl.BlockSpec((1, *out_shape[1:]), {step})",
        sequence(scratch, 12, "scratch_shapes="),
    ]
    parts = [
        "functools.partial(body, page=page)",
        call("pltpu.PrefetchScalarGridSpec", grid, 8, "grid_spec="),
        f"out_shape=jax.ShapeDtypeStruct(out_shape, jnp.{d.output.dtype})",
        compiler_params(["arbitrary"]),
    ]
    lines.append(f"    out_shape = {out_shape}")
    lines.append(call("pl.pallas_call", parts, 4, "out = ") + f"({', '.join(passed)})")
    if padded:
        lines.append("    out = out[:, :, :group]")
    result = f"out.reshape({_result(d, q, width)})"
    if d.result != info.graph.outputs[0]:
        lines.append(f"    attended = {result}")
        writer.known[d.result] = "attended"
        result = writer.result(info.graph.outputs[0])
        lines += [f"    {line}" for text in writer.lines for line in text.split("\n")]
    lines.append(f"    return {result}")
    return "\n".join(lines)


def _cast(name: str, dtype: str) -> str:
    return name if dtype == "int32" else f"{name}.astype(jnp.int32)"


def _records(label: str, array: str, pool: Pool) -> list[str]:
    """A pool with a page's rows in one dimension, or by head."""
    if pool.head is not None and pool.head < pool.slot:
        return [f"{label} = {array}"]
    return [f"{label} = {array}.reshape(-1, kv_heads * page, {array}.shape[-1])"]


def _buffer(label: str, pool: Pool) -> str:
    record = f"*{label}.shape[1:]"
    if pool.axis:
        record = f"{label}.shape[0], *{label}.shape[2:]"
    return broken(f"pltpu.VMEM((2, block, {record}), {label}.dtype)", 16)


def _result(d: Decode, q: str, width: str) -> str:
    """The output's shape: that of the queries where widths are equal."""
    if len(d.output.dims) == len(d.queries.dims) and d.output.shape == d.queries.shape:
        return f"{q}.shape"
    shape = list(d.output.shape)
    if shape[: len(d.queries.shape) - 1] == list(d.queries.shape[:-1]):
        return f"*{q}.shape[:-1], {width}"
    return f"sequences, *{tuple(shape[1:-1])}, -1"
