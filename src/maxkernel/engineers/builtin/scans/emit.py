"""The module of a scan: arrays with heads first, the grid, and the way back."""

from __future__ import annotations

from maxkernel.engineers.builtin.attention.order import FLATTEN, heads_first, restored
from maxkernel.engineers.builtin.attention.prepare import prepare
from maxkernel.engineers.builtin.module import Module, Shapes, array_names, parameters
from maxkernel.engineers.builtin.scans.body import LANES, TAKEN, body, narrow
from maxkernel.engineers.builtin.scans.decays import decay_heads, log_decays
from maxkernel.engineers.builtin.scans.match import Scan
from maxkernel.engineers.builtin.text import Names, call, compiler_params, doc, sequence
from maxkernel.types import TaskInfo, TunableSpace

_OWN = tuple(
    "length total count keys values q_heads out steps decays spec width value_width heads chunk"
    " running_sums flatten body product fold x".split()
)


def scan_module(
    info: TaskInfo, scan: Scan, tunables: TunableSpace, vmem_limit: int, story: str
) -> str:
    """Source of one scan."""
    names = Names([*TAKEN, *_OWN])
    arguments = parameters(info, Names(_OWN))
    arrays = tuple(array_names(info, arguments))
    module = Module("Linear attention with decays.", story, tunables)
    text = body(scan, module)
    module.constants["VMEM_LIMIT_BYTES"] = (
        f"{vmem_limit >> 20} * 2**20",
        "all positions of a few heads stay in VMEM",
    )
    module.constants["LANES"] = (str(LANES), "of a register: chunks are whole ones")
    module.helpers.add(FLATTEN)
    kernel = _kernel(scan, arguments, arrays, tunables, names, module)
    module.functions += [text, kernel]
    return module.render()


def _kernel(
    scan: Scan,
    arguments: list[str],
    arrays: tuple[str, ...],
    tunables: TunableSpace,
    names: Names,
    module: Module,
) -> str:
    program, pair = scan.program, scan.pair
    everything = [program.input(t) for t in program.live() if program[t].op == "input"]
    shapes = Shapes(program, tuple(everything), arrays)
    defaults = [f"{name}={choices[0]}" for name, choices in tunables.items()]
    roles = list(zip(scan.sides, ("queries", "keys", "values"), strict=True))
    changed, named = prepare(program, roles, arrays, module)
    q, k, v = (heads_first(s, n, shapes) for s, n in zip(scan.sides, named, strict=True))
    for name in (*arguments, *named):
        names.new(name)
    turn, turn_value = (".swapaxes(1, 2)" if narrow(n) else "" for n in scan.sizes[2:])
    count = "decays.shape[0]" if scan.step is not None else "count"
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("A few heads per step of the grid, all positions of each.", 4),
        *changed,
        f"    q_heads = {q}",
        "    length, width = q_heads.shape[-2:]",
        "    # At least two chunks where there is room: one program for every length.",
        "    chunk = min(chunk, pl.cdiv(length, 2 * LANES) * LANES)",
        *(
            [f"    {line}" for line in log_decays(scan, arrays, shapes, names, module)]
            if scan.step is not None
            else []
        ),
        f"    queries = flatten(q_heads, chunk){turn}",
        f"    keys = flatten({k}, chunk){turn}",
        f"    values = flatten({v}, chunk){turn_value}",
        f"    count, value_width = values.shape[0], values.shape[{1 if turn_value else 2}]",
        f"    heads = math.gcd(heads, {count})",
        "",
        "    def spec(x):",
        "        return pl.BlockSpec((heads, *x.shape[1:]), lambda i: (i, 0, 0))",
        "",
    ]
    passed, blocks = ["queries", "keys", "values"], ["spec(queries)", "spec(keys)", "spec(values)"]
    if scan.step is not None:
        passed.append("decays")
        index = "i" if not _periodic(scan) else "i % (decays.shape[0] // heads)"
        arguments_ = ["(heads, *decays.shape[1:])", f"lambda i: ({index}, 0, 0, 0)"]
        blocks.append(call("pl.BlockSpec", arguments_, 12).lstrip())
    scratch = ["pltpu.VMEM((heads, value_width, width), jnp.float32)"]
    if scan.norm == "signed":
        scratch.append("pltpu.VMEM((heads, width, 1), jnp.float32)")
    if scan.norm == "absolute":
        length = f"queries.shape[{2 if turn else 1}]"
        scratch.append(f"pltpu.VMEM((heads, {length}, width), keys.dtype)")
    parts = [
        "functools.partial(body, chunk=chunk)",
        "grid=(count // heads,)",
        sequence(blocks, 8, "in_specs="),
        "out_specs=spec(values)",
        f"out_shape=jax.ShapeDtypeStruct(values.shape, jnp.{scan.output.dtype})",
        sequence(scratch, 8, "scratch_shapes="),
        compiler_params(["parallel"]),
    ]
    lines.append(call("pl.pallas_call", parts, 4, "out = ") + f"({', '.join(passed)})")
    if turn_value:
        lines.append("    out = out.swapaxes(1, 2)")
    lines += [f"    {line}" for line in restored(program, pair.q, pair.result, scan.output)]
    return "\n".join(lines)


def _periodic(scan: Scan) -> bool:
    """Whether several heads share decays."""
    return decay_heads(scan) != scan.pair.heads
