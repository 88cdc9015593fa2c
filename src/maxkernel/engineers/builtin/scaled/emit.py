"""The module of a product with a scale per block of the contraction."""

from __future__ import annotations

from maxkernel.engineers.builtin.module import Module, array_names, parameters, plain
from maxkernel.engineers.builtin.scaled.match import ScaledProduct
from maxkernel.engineers.builtin.text import Names, call, compiler_params, doc, sequence
from maxkernel.types import TaskInfo, TunableSpace

_OWN = tuple(
    "x_rows m n k steps b c carry rows row_scale col_scale left part total first last chunk depth"
    " dot body out chunk_rows block_m block_n step x_ref w_ref row_scale_ref col_scale_ref out_ref"
    " acc_ref wide_ref".split()
)
STORY = (
    "Partial products of a few blocks at a time are scaled and added up in VMEM; only the\n"
    "finished sums are rounded and stored."
)


def scaled_module(info: TaskInfo, p: ScaledProduct, tunables: TunableSpace, vmem_limit: int) -> str:
    """Source of one scaled product."""
    module = Module("Matrix product with a scale per block of the contraction.", STORY, tunables)
    module.constants = {
        "DEPTH": (str(p.sizes[3]), "elements of the contraction that share a scale"),
        "BLOCKS": (str(p.group), "of them per grid step"),
        "VMEM_LIMIT_BYTES": (f"{vmem_limit >> 20} * 2**20", "two buffers per block, and a chunk"),
    }
    module.functions = [_dot(p), _body(p), _kernel(info, p, tunables)]
    return module.render()


def _dot(p: ScaledProduct) -> str:
    whole = p.dot.dtype == "int32"
    kind = f"preferred_element_type=jnp.{'int32' if whole else 'float32'}"
    numbers = "(((1,), (0,)), ((), ()))" if p.flipped else "(((1,), (1,)), ((), ()))"
    shapes = "(m, k) times (k, n)" if p.flipped else "(m, k) times (n, k)"
    product = call("jax.lax.dot_general", ["lhs", "rhs", numbers, kind], 4, "return ")
    lines = ["def dot(lhs, rhs):", doc(f"{shapes}, as they lie; partial sums are exact.", 4)]
    if not whole:
        lines[1] = doc(f"{shapes}, as they lie, accumulated in float32.", 4)
        return "\n".join([*lines, product])
    product = call("jax.lax.dot_general", ["lhs", "rhs", numbers, kind], 4, "part = ")
    return "\n".join([*lines, product, "    return part.astype(jnp.float32)"])


def _widened(p: ScaledProduct) -> bool:
    """Whether w is converted before it is multiplied."""
    return p.w.dtype != p.dtypes[1]


def _body(p: ScaledProduct) -> str:
    refs = ["x_ref", "w_ref"]
    factors = ["part"]
    if p.rows:
        refs.append("row_scale_ref")
        factors.append("scale[:, b : b + 1]")
    if p.cols:
        refs.append("col_scale_ref")
        factors.append("col_scale_ref[b : b + 1, :]")
    refs += ["out_ref", "acc_ref", *(["wide_ref"] if _widened(p) else [])]
    right = "wide_ref" if _widened(p) else "w_ref"
    taken = f"{right}[depth, :]" if p.flipped else f"{right}[:, depth]"
    cast = "" if p.x.dtype == p.dtypes[0] else f".astype(jnp.{p.dtypes[0]})"
    widen = f"    wide_ref[...] = w_ref[...].astype(jnp.{p.dtypes[1]})"
    lines = [
        call("body", [*refs, "*", "chunk_rows"], 0, "def ", ":"),
        doc("Adds the scaled products of some blocks; the last step stores the sum.", 4),
        "    step, steps = pl.program_id(2), pl.num_programs(2)",
        "",
        "    @pl.when(step == 0)",
        "    def first():",
        "        acc_ref[...] = jnp.zeros_like(acc_ref)",
        "",
        *([widen, ""] if _widened(p) else []),
        "    def chunk(c, carry):",
        "        rows = pl.ds(pl.multiple_of(c * chunk_rows, chunk_rows), chunk_rows)",
        f"        left = x_ref[rows, :]{cast}",
        *(["        scale = row_scale_ref[rows, :]"] if p.rows else []),
        "        total = acc_ref[rows, :]",
        "        for b in range(BLOCKS):",
        "            depth = slice(b * DEPTH, (b + 1) * DEPTH)",
        f"            part = dot(left[:, depth], {taken})",
        f"            total += {' * '.join(factors)}",
        "        acc_ref[rows, :] = total",
        "",
        "        @pl.when(step == steps - 1)",
        "        def last():",
        "            out_ref[rows, :] = total.astype(out_ref.dtype)",
        "",
        "        return carry",
        "",
        "    jax.lax.fori_loop(0, out_ref.shape[0] // chunk_rows, chunk, 0)",
    ]
    return "\n".join(lines)


def _kernel(info: TaskInfo, p: ScaledProduct, tunables: TunableSpace) -> str:
    arguments = parameters(info, Names(_OWN))
    arrays = array_names(info, arguments)
    x, w = arrays[p.x.index], arrays[p.w.index]
    deep = len(p.x.dims) > 2
    rows = "x_rows" if deep else x
    depth = "BLOCKS * DEPTH"
    given = [rows, w]
    w_spec = ((depth, "block_n"), "s, j") if p.flipped else (("block_n", depth), "j, s")
    specs = [_spec("block_m", depth, "i, s"), _spec(*w_spec[0], w_spec[1])]
    before: list[str] = []
    if p.rows:
        before.append(
            f"    row_scale = {arrays[p.rows.index]}.reshape(m, steps, BLOCKS).transpose(1, 0, 2)"
        )
        given.append("row_scale")
        specs.append(_spec("None, block_m", "BLOCKS", "s, i, 0"))
    if p.cols:
        before += _col_scale(p, arrays[p.cols.index])
        given.append("col_scale")
        specs.append(_spec("None, BLOCKS", "block_n", "s, 0, j"))
    wide = "(BLOCKS * DEPTH, block_n)" if p.flipped else "(block_n, BLOCKS * DEPTH)"
    scratch = ["pltpu.VMEM((block_m, block_n), jnp.float32)"]
    if _widened(p):
        scratch.append(f"pltpu.VMEM({wide}, jnp.{p.dtypes[1]})")
    defaults = [f"{name}={plain(choices[0])}" for name, choices in tunables.items()]
    dtype = info.outputs[0].dtype
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("Reads the sizes from the inputs' shapes and fits the blocks to them.", 4),
        *([f"    x_rows = {x}.reshape(-1, {x}.shape[-1])"] if deep else []),
        f"    m, k = {rows}.shape",
        f"    n = {w}.shape[{1 if p.flipped else 0}]",
        "    steps = k // (BLOCKS * DEPTH)",
        "    # Two chunks of a block at least: one program for every number of rows.",
        "    chunk_rows = min(chunk_rows, block_m // 2, pl.cdiv(m, 64) * 32)",
        "    block_m = min(block_m, pl.cdiv(m, chunk_rows) * chunk_rows)",
        "    block_n = min(block_n, n)",
        *before,
        _call(specs, scratch, dtype, "out = " if deep else "return ") + call("", given, 0),
        *([f"    return out.reshape(*{x}.shape[:-1], n)"] if deep else []),
    ]
    return "\n".join(lines)


def _col_scale(p: ScaledProduct, name: str) -> list[str]:
    """Statements that lay the columns' scales out as (steps, blocks, n)."""
    turned = name if p.cols_flipped else f"{name}.T"
    columns = f"{name}.shape[{1 if p.cols_flipped else 0}]"
    if p.repeats == 1:
        return [f"    col_scale = {turned}.reshape(steps, BLOCKS, n)"]
    return [
        f"    col_scale = jnp.repeat({turned}, n // {columns}, axis=1)",
        "    col_scale = col_scale.reshape(steps, BLOCKS, n)",
    ]


def _spec(first: str, second: str, index: str) -> str:
    return f"pl.BlockSpec(({first}, {second}), lambda i, j, s: ({index}))"


def _call(specs: list[str], scratch: list[str], dtype: str, target: str) -> str:
    pieces = [
        "functools.partial(body, chunk_rows=chunk_rows)",
        "grid=(pl.cdiv(m, block_m), pl.cdiv(n, block_n), steps)",
        sequence(specs, 8, "in_specs="),
        f"out_specs={_spec('block_m', 'block_n', 'i, j')}",
        f"out_shape=jax.ShapeDtypeStruct((m, n), jnp.{dtype})",
        sequence(scratch, 8, "scratch_shapes="),
        compiler_params(["parallel", "parallel", "arbitrary"]),
    ]
    return call("pl.pallas_call", pieces, 4, target)
