"""Functions of a grouped kernel: the list of visits, one tile of one group, and the call."""

from __future__ import annotations

from collections.abc import Sequence

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.chunks import loaded
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.grouped.decode import (
    decoding_calls,
    labels,
    operands,
    prepared,
    scratch,
)
from maxkernel.engineers.builtin.grouped.match import Stage
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.text import Names, call, compiler_params, doc, sequence

WORK_LIST = '''def work_list(group_sizes, rows, block_rows):
    """Ends of the groups, and group and tile of every visit, in the order of rows.

    A tile that several groups share is visited once for each. The rows behind the last group are
    a group of their own. Visits that are left over repeat the last tile for no group.
    """
    tiles = pl.cdiv(rows, block_rows)
    ends = jnp.append(jnp.cumsum(group_sizes), rows)
    ends = jnp.minimum(ends, rows).astype(jnp.int32)
    starts = jnp.concatenate([jnp.zeros(1, jnp.int32), ends[:-1]])
    first = starts // block_rows
    visits = jnp.where(ends > starts, (ends - 1) // block_rows - first + 1, 0)
    last = jnp.cumsum(visits)
    visit = jnp.arange(tiles + group_sizes.shape[0], dtype=jnp.int32)
    group = jnp.sum(last <= visit[:, None], axis=1).astype(jnp.int32)
    known = jnp.minimum(group, ends.shape[0] - 1)
    tile = first[known] + visit - (last - visits)[known]
    return ends, group, jnp.minimum(tile, tiles - 1).astype(jnp.int32)
'''
OWN_ROWS = '''def own_rows(ends_ref, group, tile, shape):
    """Which elements of a tile lie in rows of the group."""
    known = jnp.minimum(group, ends_ref.shape[0] - 1)
    start = jnp.where(known > 0, ends_ref[jnp.maximum(known - 1, 0)], 0)
    row = tile * shape[0] + jax.lax.broadcasted_iota(jnp.int32, shape, 0)
    return (row >= start) & (row < ends_ref[known])
'''
APART = '''def apart(both_ref, even_ref, odd_ref):
    """Even and odd columns, from pairs of vector registers by turning lanes."""
    lane = jax.lax.broadcasted_iota(jnp.int32, (both_ref.shape[0], LANES), 1)

    def pair(p, carry):
        start = pl.multiple_of(p * 2 * LANES, 2 * LANES)
        left = both_ref[:, pl.ds(start, LANES)]
        right = both_ref[:, pl.ds(pl.multiple_of(start + LANES, LANES), LANES)]
        target = pl.ds(pl.multiple_of(p * LANES, LANES), LANES)
        for first, ref in enumerate([even_ref, odd_ref]):
            source = (2 * lane + first) % LANES
            low, high = (
                jnp.take_along_axis(x, source, axis=1, mode="promise_in_bounds")
                for x in (left, right)
            )
            ref[:, target] = jnp.where(lane < LANES // 2, low, high)
        return carry

    jax.lax.fori_loop(0, both_ref.shape[1] // (2 * LANES), pair, 0)
'''
PARTS = ("both_ref", "even_ref", "odd_ref")
_TAKEN = (
    "visit group tile groups mine new rows store nothing".split()
    + "ends_ref group_ref tile_ref rows_ref out_ref both_ref even_ref odd_ref".split()
)


def stage_names(count: int, stage: int) -> tuple[str, str]:
    """Names of the body and of the function that calls it."""
    end = f"_{stage + 1}" if count > 1 else ""
    return f"body{end}", f"multiply{end}"


def body(stage: Stage, name: str, decoders: Sequence[str], module: Module) -> str:
    """Source of one stage's body; `decoders` are functions that decode its weights, if any do."""
    e = stage.epilogue
    names = Names(_TAKEN)
    weights = [f"{names.new(n)}_ref" for n in labels(stage)]
    read, kept = operands(stage)
    extras = {x.term: f"{names.new(f'extra_{i + 1}')}_ref" for i, x in enumerate(e.extras)}
    refs = ["ends_ref", "group_ref", "tile_ref", "rows_ref", *(f"{r}_ref" for r in read)]
    refs += [*extras.values(), "out_ref", *(f"{k}_ref" for k in kept)]
    refs += PARTS if stage.apart else ()

    def load(term: int) -> Code:
        return loaded(f"{extras[term]}[...]", e.program.input(term).dtype)

    def refuse(_: Dim) -> Code:
        raise Unsupported("what follows the products depends on positions")

    rows, cols = e.program.input(e.products[0]).dims
    scope = Scope(
        program=e.program, rows=frozenset(rows), cols=cols, load=load, iota=refuse, size=refuse,
        names=names, helpers=module.helpers, constants=module.constants,
    )  # fmt: skip
    products, lines = _products(stage, weights, names)
    scope.known |= {t: Code(label) for t, label in zip(e.products, products, strict=True)}
    (value,) = scope.write([e.root])
    if not value.text.isidentifier():
        result = names.new("result")
        scope.lines.append(f"{result} = {value.text}")
        value = Code(result)
    stored = f"{value.text}.astype(out_ref.dtype)"
    store = [*scope.lines, f"out_ref[...] = jnp.where(mine, {stored}, out_ref[...])"]
    return "\n".join(
        [
            call(name, refs, 0, "def ", ":"),
            doc("One tile of rows for one group; only the group's own rows are written.", 4),
            "    visit = pl.program_id(1)",
            "    group, tile = group_ref[visit], tile_ref[visit]",
            "    groups = ends_ref.shape[0] - 1",
            "    mine = own_rows(ends_ref, group, tile, out_ref.shape)",
            *_decoded(stage, decoders),
            "",
            *_visits(stage, products, lines, store),
        ]
    )


def _products(stage: Stage, weights: Sequence[str], names: Names) -> tuple[list[str], list[str]]:
    """Names of a stage's products, and the statements that make them of `rows`."""
    lines: list[str] = []
    labels = [names.new(weight[:-4].replace("weights", "product")) for weight in weights]
    for label, weight, coded in zip(labels, weights, stage.coded, strict=True):
        block = f"{weight}[...]" if coded else f"{weight}[0]"
        dot = ["rows", block, "preferred_element_type=jnp.float32"]
        target = "both_ref[...]" if stage.apart else label
        lines.append(call("jnp.dot", dot, 8, f"{target} = ").lstrip())
    if stage.apart:
        labels = [names.new("even"), names.new("odd")]
        lines.append(f"apart({', '.join(PARTS)})")
        lines += [f"{label} = {ref}[...]" for label, ref in zip(labels, PARTS[1:], strict=True)]
    return labels, lines


def _visits(
    stage: Stage, products: Sequence[str], lines: Sequence[str], store: Sequence[str]
) -> list[str]:
    """What is done at a visit of a group, and, where rows of no group are read, of theirs."""
    group = ["    @pl.when(group < groups)", "    def _product():", "        rows = rows_ref[...]"]
    group += [f"        {line}" for line in lines]
    none = ["", "    @pl.when(group == groups)", "    def _no_group():"]
    if not stage.whole or stage.epilogue.zero:
        none.append("        out_ref[...] = jnp.where(mine, 0, out_ref[...])")
        return [*group, *(f"        {line}" for line in store), *(none if stage.whole else [])]
    nothing = ["nothing"] * len(products)
    return [
        f"    def store({', '.join(products)}):",
        *(f"        {line}" for line in store),
        "",
        *group,
        f"        store({', '.join(products)})",
        *none,
        "        nothing = jnp.zeros(out_ref.shape, jnp.float32)",
        f"        store({', '.join(nothing)})",
    ]


def multiply(stage: Stage, name: str, body_name: str) -> str:
    """Source of the function that calls the kernel of one stage."""
    extras = [f"extra_{i + 1}" for i in range(len(stage.epilogue.extras))]
    places = {
        "full": ("(block_rows, columns)", "own_tile"),
        "row": ("(block_rows, 1)", "own_rows_only"),
        "col": ("(1, columns)", "own_columns"),
    }
    roles = [x.role for x in stage.epilogue.extras]
    specs = ["pl.BlockSpec((block_rows, rows.shape[1]), rows_of_groups)"]
    read, kept = operands(stage)
    wide = "2 * columns" if stage.apart else "columns"
    specs += [f"pl.BlockSpec((1, {r}.shape[1], {wide}), own_weights)" for r in read]
    specs += [f"pl.BlockSpec({places[role][0]}, {places[role][1]})" for role in roles]
    grid = [
        "num_scalar_prefetch=3",
        "grid=(pl.cdiv(width, columns), visits[1].shape[0])",
        sequence(specs, 12, "in_specs="),
        "out_specs=pl.BlockSpec((block_rows, columns), own_tile)",
    ]
    if kept or stage.apart:
        grid.append(sequence(scratch(stage), 12, "scratch_shapes="))
    parts = [
        body_name,
        call("pltpu.PrefetchScalarGridSpec", grid, 8, "grid_spec="),
        f"out_shape=jax.ShapeDtypeStruct(shape, jnp.{stage.epilogue.dtype})",
        compiler_params(["parallel", "arbitrary"]),
    ]
    passed = ", ".join(["*visits", "rows", *read, *extras])
    signature = ["visits", "rows", *read, *extras, "block_rows", "block_columns"]
    what = "The product" if len(stage.weights) == 1 else "The products"
    lines = [
        call(name, signature, 0, "def ", ":"),
        doc(f"{what} of each row with its group's weights. Weights stay for all of a group.", 4),
        *prepared(stage),
        *_sizes(stage, read[0]),
        *_maps(stage, {"own_tile", "own_weights", *(places[r][1] for r in roles)}),
        call("pl.pallas_call", parts, 4, "return ") + f"({passed})",
    ]
    return "\n".join(lines)


def _decoded(stage: Stage, decoders: Sequence[str]) -> list[str]:
    """Statements that decode the weights at a group's first visit."""
    calls = [line for text in decoding_calls(stage, decoders) for line in text.split("\n")]
    if not calls:
        return []
    return [
        "    new = (visit == 0) | (group != group_ref[jnp.maximum(visit - 1, 0)])",
        "",
        "    @pl.when((group < groups) & new)",
        "    def _decode():",
        *(f"        {line}" for line in calls),
    ]


def _sizes(stage: Stage, weights: str) -> list[str]:
    """Statements that name the sizes of arrays and blocks."""
    rows = "    block_rows = min(block_rows, rows.shape[0])"
    if not stage.apart:
        return [
            f"    groups, _, width = {weights}.shape",
            "    shape = (rows.shape[0], width)",
            rows,
            "    columns = min(block_columns, width)",
        ]
    return [
        f"    groups, width = {weights}.shape[0], {weights}.shape[2] // 2",
        "    shape = (rows.shape[0], width)",
        rows,
        "    columns = pl.cdiv(min(block_columns, width), LANES) * LANES",
    ]


_LAST = """
    def known(tile, ends):
        return jnp.minimum(tile, jnp.maximum(ends[groups - 1] - 1, 0) // block_rows)
"""
_MAPS = {
    "rows_of_groups": "known(tile[v], ends), 0",
    "own_rows_only": "{tile}, 0",
    "own_weights": "jnp.minimum(group[v], groups - 1), 0, j",
    "own_columns": "0, j",
    "own_tile": "{tile}, j",
}


def _maps(stage: Stage, used: set[str]) -> list[str]:
    """Functions from a step of the grid to a block's index. Rows are not fetched at visits of no
    group; where nobody reads the result's rows of no group, nothing else is moved there either."""
    tile = "tile[v]" if stage.whole else "known(tile[v], ends)"
    lines = list[str](_LAST.split("\n"))
    for name, index in _MAPS.items():
        if name in used or name == "rows_of_groups":
            lines.append(f"    def {name}(j, v, ends, group, tile):")
            lines += [f"        return {index.format(tile=tile)}", ""]
    return lines
