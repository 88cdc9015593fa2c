"""Functions of a grouped kernel whose weights are codes: decoding a block in VMEM."""

from __future__ import annotations

from collections.abc import Sequence

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.chunks import loaded
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.grouped.coded import Coded
from maxkernel.engineers.builtin.grouped.match import Stage
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.text import Names, call, doc

_TAKEN = (
    "codes scales spread stored code part c cols columns start row rows run step tall width carry "
    "once chunk weights place pieces value".split()
)
_BY_PLACE = '''def by_place(rows, places, tail):
    """Columns in the order of decoded weights: those of the codes' first place, then the next.
    Zeros meet the codes that fill up the last step."""
    parts = [rows[:, place::places] for place in range(places)]
    if tail:
        parts = [jnp.pad(part, ((0, 0), (0, tail))) for part in parts]
    return jnp.concatenate(parts, axis=1)
'''
_FILLED = '''def filled(x, tail):
    """An array (groups, rows, columns) with `tail` more rows, like the last one."""
    return jnp.pad(x, ((0, 0), (0, tail), (0, 0)), mode="edge") if tail else x
'''
_STEP = '''def step_rows(run):
    """Rows of codes that are decoded at once: whole runs, and whole tiles."""
    return math.lcm(run, CODE_ROWS)
'''


def labels(stage: Stage) -> list[str]:
    """Names of a stage's blocks of weights."""
    count = len(stage.weights)
    return ["weights"] if count == 1 else [f"weights_{i + 1}" for i in range(count)]


def operands(stage: Stage) -> tuple[list[str], list[str]]:
    """Names of the arrays that a stage's kernel reads beside its rows, and of its scratch."""
    read: list[str] = []
    kept: list[str] = []
    for label, coded in zip(labels(stage), stage.coded, strict=True):
        given, scratch = refs(coded, label) if coded else ([label], [])
        read += given
        kept += scratch
    return read, kept


def prepared(stage: Stage) -> list[str]:
    """Statements that fill codes up to whole steps, and put the rows' columns in their order."""
    lines: list[str] = []
    for label, coded in zip(labels(stage), stage.coded, strict=True):
        if coded is None:
            continue
        (codes, *scales), _ = refs(coded, label)
        run = f"{codes}.shape[1] // {scales[0]}.shape[1]" if scales else "1"
        if not lines:
            lines += [f"    run = {run}", f"    tail = -{codes}.shape[1] % step_rows(run)"]
            lines.append(f"    rows = by_place(rows, {len(coded.parts)}, tail)")
        lines.append(f"    {codes} = filled({codes}, tail)")
        lines += [f"    {scale} = filled({scale}, tail // run)" for scale in scales]
    return lines


def scratch(stage: Stage) -> list[str]:
    """Shapes of the scratch arrays: decoded weights, scales as numbers, a product and its parts."""
    found: list[str] = []
    for label, coded in zip(labels(stage), stage.coded, strict=True):
        if coded is None:
            continue
        (_, *scales), (_, *spread) = refs(coded, label)
        wide = "2 * columns" if stage.apart else "columns"
        found.append(f"pltpu.VMEM((rows.shape[1], {wide}), rows.dtype)")
        found += [f"pltpu.VMEM(({scales[0]}.shape[1], {wide}), jnp.float32)" for _ in spread]
    for width in ("2 * columns", "columns", "columns") if stage.apart else ():
        found.append(f"pltpu.VMEM((block_rows, {width}), jnp.float32)")
    return found


def decoding_calls(stage: Stage, decoders: Sequence[str]) -> list[str]:
    """Calls of the functions `decoders`, one for each block of weights that is decoded."""
    found: list[str] = []
    coded = [(label, c) for label, c in zip(labels(stage), stage.coded, strict=True) if c]
    for name, (label, one) in zip(decoders, coded, strict=True):
        read, kept = refs(one, label)
        found.append(call(name, [f"{r}_ref" for r in (*read, *kept)], 8).lstrip())
    return found


def decoding(coded: Coded, name: str, module: Module) -> str:
    """Source of the functions that decode a group's block of weights; `name` is the second's."""
    module.helpers |= {_BY_PLACE, _FILLED, _STEP}
    module.constants["CODE_ROWS"] = ("32", "of a tile of bytes")
    module.constants["CODE_COLUMNS"] = ("640", "decoded at once: their values stay in registers")
    return f"{_one_code(coded, name, module)}\n\n\n{_block(coded, name, module)}"


def refs(coded: Coded, label: str) -> tuple[list[str], list[str]]:
    """Names of the arrays that a kernel reads in place of weights, and of its scratch arrays."""

    def named(what: str, items: Sequence[object]) -> list[str]:
        ends = [f"_{chr(ord('a') + i)}" for i in range(len(items))] if len(items) > 1 else [""]
        return [label.replace("weights", what + end) for _, end in zip(items, ends, strict=True)]

    return ["codes" + label.removeprefix("weights"), *named("scales", coded.runs)], [
        label,
        *named("spread", coded.scales),
    ]


def _scope(coded: Coded, names: Names, module: Module, known: dict[int, Code]) -> Scope:
    def load(term: int) -> Code:
        raise Unsupported("weights that depend on other arrays")

    def refuse(_: Dim) -> Code:
        raise Unsupported("weights that depend on positions")

    return Scope(
        program=coded.program, rows=frozenset(coded.rows), cols=coded.columns, load=load,
        iota=refuse, size=refuse, names=names, known=known, helpers=module.helpers,
        constants=module.constants,
    )  # fmt: skip


def _one_code(coded: Coded, name: str, module: Module) -> str:
    names = Names(_TAKEN)
    scales = [ref.replace("spread", "scale") for ref in refs(coded, "weights")[1][1:]]
    known = {coded.code: Code("code")}
    known |= {term: Code(text) for term, text in zip(coded.scales, scales, strict=True)}
    scope = _scope(coded, names, module, known)
    (value,) = scope.write([coded.root])
    what = "Weights of codes" + (", by the scales of their runs." if scales else ".")
    return "\n".join(
        [
            f"def {_of_one(name)}({', '.join(['code', *scales])}):",
            doc(what, 4),
            *(f"    {line}" for line in scope.lines),
            f"    return {value.text}",
        ]
    )


def _of_one(name: str) -> str:
    return name.replace("decode", "decoded")


def _block(coded: Coded, name: str, module: Module) -> str:
    read, kept = refs(coded, "weights")
    spreads = [f"{k}_ref" for k in kept[1:]]
    signature = [f"{r}_ref" for r in (*read, *kept)]
    names = Names([*_TAKEN, *signature])
    dtypes = coded.program.dtypes
    known = {
        term: loaded(f"{ref}_ref[0]", dtypes[array])
        for (term, array), ref in zip(coded.runs, read[1:], strict=True)
    }
    once = _scope(coded, names, module, known)
    values = once.write(coded.scales)
    lines = [*once.lines]
    lines += [f"{ref}[...] = {v.text}" for ref, v in zip(spreads, values, strict=True)]
    lines += ["tall, width = codes_ref.shape[1:]"]
    run = f"tall // {spreads[0]}.shape[0]" if spreads else "1"
    lines += [f"run = {run}", "step = step_rows(run)"]
    places = _scope(coded, names, module, {coded.stored: Code("stored")})
    codes = places.write(coded.parts)
    stored = loaded("codes_ref[0, pl.ds(row, step), cols]", dtypes[coded.codes]).text
    inner = ["row = pl.multiple_of(c * step, step)", "for start in range(0, width, CODE_COLUMNS):"]
    body = ["cols = slice(start, min(start + CODE_COLUMNS, width))", f"stored = {stored}"]
    passed = ["code"]
    for ref in spreads:
        scale = ref.replace("spread", "scale").removesuffix("_ref")
        body.append(f"{scale} = repeated({ref}, row // run, run, step, cols)")
        passed.append(scale)
    body += places.lines
    if len(codes) > 1:
        body.append(f"for place, code in enumerate([{', '.join(c.text for c in codes)}]):")
        inside = ["rows = pl.ds(pl.multiple_of(place * tall + row, CODE_ROWS), step)"]
        passed_text = ", ".join(passed)
    else:
        passed_text = ", ".join([codes[0].text, *passed[1:]])
        inside = ["rows = pl.ds(row, step)"]
    inside += [
        f"value = {_of_one(name)}({passed_text})",
        "weights_ref[rows, cols] = value.astype(weights_ref.dtype)",
    ]
    body += [f"    {line}" if len(codes) > 1 else line for line in inside]
    inner += [f"    {line}" for line in body]
    if spreads:
        module.helpers.add(_REPEATED)
    why = "A group's block of weights from its codes"
    why += ", place by place of what a code holds." if len(codes) > 1 else "."
    return "\n".join(
        [
            call(name, signature, 0, "def ", ":"),
            doc(why, 4),
            *(f"    {line}" for line in lines),
            "",
            "    def chunk(c, carry):",
            *(f"        {line}" for line in inner),
            "        return carry",
            "",
            "    jax.lax.fori_loop(0, tall // step, chunk, 0)",
        ]
    )


_REPEATED = '''def repeated(ref, first, run, rows, cols):
    """One row per code: every row of `ref` from `first`, as often as its run is long."""
    pieces = [ref[pl.ds(first + i, 1), cols] for i in range(rows // run)]
    shape = (run, pieces[0].shape[1])
    return jnp.concatenate([jnp.broadcast_to(p, shape) for p in pieces], axis=0)
'''
