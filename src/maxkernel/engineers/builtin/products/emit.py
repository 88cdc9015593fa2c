"""The module of a feed-forward layer: two kernels, one per level of products."""

from __future__ import annotations

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.chunks import Store, stores
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.matmul.kernel import DIVISOR
from maxkernel.engineers.builtin.module import Module, array_names, parameters
from maxkernel.engineers.builtin.products.match import FeedForward, Weight
from maxkernel.engineers.builtin.text import Names, call, doc
from maxkernel.types import TaskInfo, TunableSpace

_OWN = tuple(
    "x_rows m n k width hidden out body rows chunk chunk_rows block_m block_n out_m out_n out_k"
    " dot left first_ref second_ref x_ref hidden_ref weight_ref out_ref acc_ref c carry step steps"
    " partial product_1 product_2 divisor combine add_up i j half".split()
)
_ADD_UP = '''def add_up(hidden_ref, weight_ref, out_ref, acc_ref, *, chunk_rows, steps):
    """One partial product; the last one is rounded and stored."""
    step = pl.program_id(2)

    def chunk(c, carry):
        rows = pl.ds(pl.multiple_of(c * chunk_rows, chunk_rows), chunk_rows)
        partial = {product}

        @pl.when(step == 0)
        def first():
            acc_ref[rows, :] = partial

        @pl.when(step > 0)
        def more():
            acc_ref[rows, :] += partial

        @pl.when(step == steps - 1)
        def last():
            out_ref[rows, :] = acc_ref[rows, :].astype(out_ref.dtype)

        return carry

    jax.lax.fori_loop(0, out_ref.shape[0] // chunk_rows, chunk, 0)
'''
STORY = (
    "Two products of the same rows in one pass: rows are read once, and what becomes of\n"
    "both is rounded and stored once. A second kernel multiplies that by the last matrix."
)

PAIR_STORY = (
    "Two products of the same rows in one pass: rows are read once, and what becomes of\n"
    "both is stored once."
)


def feed_forward_module(
    info: TaskInfo, layer: FeedForward, tunables: TunableSpace, vmem_limit: int
) -> str:
    """Source of one feed-forward layer."""
    arguments = parameters(info, Names(_OWN))
    arrays = tuple(array_names(info, arguments))
    title = "Feed-forward layer of three products." if layer.last else "Two products, joined."
    module = Module(title, STORY if layer.last else PAIR_STORY, tunables)
    limit = f"{vmem_limit >> 20} * 2**20"
    module.constants["VMEM_LIMIT_BYTES"] = (limit, "two buffers per block, and a chunk")
    module.constants["CHUNK_ROWS"] = ("512", "of a block at a time: enough for the matrix unit")
    module.functions.append(_combine(layer, module))
    if layer.last:
        module.helpers.add(DIVISOR)
        last = _dot("hidden_ref[rows, :]", "weight_ref[...]", layer.last)
        module.functions.append(_ADD_UP.format(product=last))
    module.functions.append(_kernel(layer, arguments, arrays, tunables))
    return module.render()


def _dot(left: str, right: str, weight: Weight) -> str:
    if not weight.flipped:
        return call("jnp.dot", [left, right, "preferred_element_type=jnp.float32"], 8).lstrip()
    numbers = "(((1,), (1,)), ((), ()))"
    kind = "preferred_element_type=jnp.float32"
    return call("jax.lax.dot_general", [left, right, numbers, kind], 8).lstrip()


def _combine(layer: FeedForward, module: Module) -> str:
    def refuse(what: int | Dim) -> Code:
        raise Unsupported("more than the products stands between them")

    scope = Scope(
        program=layer.program,
        rows=frozenset(),
        cols=(),
        load=refuse,
        iota=refuse,
        size=refuse,
        names=Names(_OWN),
        known={t: Code(f"product_{i + 1}") for i, t in enumerate(layer.firsts)},
        helpers=module.helpers,
        constants=module.constants,
        narrow=True,
    )
    combined = stores(scope, [Store("hidden_ref", layer.hidden, layer.hidden_dtype)], 8)
    firsts = zip(("first_ref", "second_ref"), layer.weights, strict=True)
    products = [
        f"product_{i + 1} = {_dot('left', f'{ref}[...]', weight)}"
        for i, (ref, weight) in enumerate(firsts)
    ]
    lines = [
        "def combine(x_ref, first_ref, second_ref, hidden_ref, *, chunk_rows):",
        doc("One block of what the last product multiplies, some rows at a time.", 4),
        "",
        "    def chunk(c, carry):",
        "        rows = pl.ds(pl.multiple_of(c * chunk_rows, chunk_rows), chunk_rows)",
        "        left = x_ref[rows, :]",
        *(f"        {line}" for line in (*products, *combined)),
        "        return carry",
        "",
        "    jax.lax.fori_loop(0, x_ref.shape[0] // chunk_rows, chunk, 0)",
    ]
    return "\n".join(lines)


def _kernel(
    layer: FeedForward, arguments: list[str], arrays: tuple[str, ...], tunables: TunableSpace
) -> str:
    x = arrays[layer.x.index]
    defaults = [f"{name}={choices[0]}" for name, choices in tunables.items()]
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("Blocks of rows and columns over a grid" + (", twice." if layer.last else "."), 4),
        *_first_call(layer, arrays),
        *(_last_call(layer.last, layer, arrays) if layer.last else []),
    ]
    result, width = ("out", "n") if layer.last else ("hidden", "width")
    shape = (
        f"{x}.shape"
        if layer.x.dims[-1:] == layer.output.dims[-1:]
        else f"(*{x}.shape[:{len(layer.output.dims) - 1}], {width})"
    )
    return "\n".join([*lines, f"    return {result}.reshape({shape})"])


def _first_call(layer: FeedForward, arrays: tuple[str, ...]) -> list[str]:
    x = arrays[layer.x.index]
    first, second = (arrays[w.use.index] for w in layer.weights)
    width, inner = (f"{first}.shape[{p}]" for p in ((1, 0) if layer.weights[0].flipped else (0, 1)))
    specs = [_weight_spec(w, ("k", "block_n"), ("0", "j")) for w in layer.weights]
    sizes = f"    k, width = {width}, {inner}"
    heights = ["CHUNK_ROWS", "block_m // 2", "half"]
    if layer.last:
        last = arrays[layer.last.use.index]
        n = f"{last}.shape[{0 if layer.last.flipped else 1}]"
        sizes = f"    k, width, n = {width}, {inner}, {n}"
        heights.insert(2, "out_m // 2")
    return [
        sizes,
        f"    x_rows = {x}.reshape(-1, k)",
        "    m = x_rows.shape[0]",
        "    # Two chunks of a block at least: one program for every number of rows.",
        "    half = pl.cdiv(m, 32) * 16",
        f"    chunk_rows = min({', '.join(heights)})",
        "    block_m = min(block_m, pl.cdiv(m, chunk_rows) * chunk_rows)",
        "    block_n = min(block_n, width)",
        "    hidden = pl.pallas_call(",
        "        functools.partial(combine, chunk_rows=chunk_rows),",
        "        grid=(pl.cdiv(m, block_m), pl.cdiv(width, block_n)),",
        "        in_specs=[",
        "            pl.BlockSpec((block_m, k), lambda i, j: (i, 0)),",
        *(f"            {spec}," for spec in specs),
        "        ],",
        "        out_specs=pl.BlockSpec((block_m, block_n), lambda i, j: (i, j)),",
        f"        out_shape=jax.ShapeDtypeStruct((m, width), jnp.{layer.hidden_dtype}),",
        "        compiler_params=pltpu.CompilerParams(",
        '            dimension_semantics=("parallel", "parallel"),',
        "            vmem_limit_bytes=VMEM_LIMIT_BYTES,",
        "        ),",
        f"    )(x_rows, {first}, {second})",
    ]


def _last_call(weight: Weight, layer: FeedForward, arrays: tuple[str, ...]) -> list[str]:
    last = arrays[weight.use.index]
    out_spec = _weight_spec(weight, ("out_k", "out_n"), ("step", "j"), "i, j, step")
    return [
        "    out_m = min(out_m, pl.cdiv(m, chunk_rows) * chunk_rows)",
        "    out_n = min(out_n, n)",
        "    out_k = divisor(width, out_k)",
        "    steps = width // out_k",
        "    out = pl.pallas_call(",
        "        functools.partial(add_up, chunk_rows=chunk_rows, steps=steps),",
        "        grid=(pl.cdiv(m, out_m), pl.cdiv(n, out_n), steps),",
        "        in_specs=[",
        "            pl.BlockSpec((out_m, out_k), lambda i, j, step: (i, step)),",
        f"            {out_spec},",
        "        ],",
        "        out_specs=pl.BlockSpec((out_m, out_n), lambda i, j, step: (i, j)),",
        f"        out_shape=jax.ShapeDtypeStruct((m, n), jnp.{layer.output.dtype}),",
        "        scratch_shapes=[pltpu.VMEM((out_m, out_n), jnp.float32)],",
        "        compiler_params=pltpu.CompilerParams(",
        '            dimension_semantics=("parallel", "parallel", "arbitrary"),',
        "            vmem_limit_bytes=VMEM_LIMIT_BYTES,",
        "        ),",
        f"    )(hidden, {last})",
    ]


def _weight_spec(
    weight: Weight, block: tuple[str, str], index: tuple[str, str], grid: str = "i, j"
) -> str:
    if weight.flipped:
        block, index = (block[1], block[0]), (index[1], index[0])
    return f"pl.BlockSpec(({', '.join(block)}), lambda {grid}: ({', '.join(index)}))"
