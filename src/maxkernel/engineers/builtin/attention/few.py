"""Attention of few queries, as in decoding: some heads side by side, blocks of keys pass by.

A product with few rows is all waiting: its operands enter the matrix unit, its result comes back.
Several heads in one step hide that, and copies of several heads are larger.
"""

from __future__ import annotations

from maxkernel.engineers.builtin.attention.body import (
    TAKEN,
    Plan,
    modified,
    names_in,
    numbers_of,
    scaled,
)
from maxkernel.engineers.builtin.attention.emit import OWN, arranged, extra_array, key_count
from maxkernel.engineers.builtin.attention.match import Attention
from maxkernel.engineers.builtin.attention.order import FLATTEN, restored
from maxkernel.engineers.builtin.attention.stream import WHOLE
from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.module import Module, array_names, parameters
from maxkernel.engineers.builtin.text import Names, call, compiler_params, doc, sequence
from maxkernel.types import TaskInfo, TunableSpace

FEWEST_ROWS = 64
"""Queries per head up to which heads go side by side."""

_UPDATE = '''def update(top, total, acc, s, values):
    """One step of a running softmax: maximum, sum of weights and weighted values so far."""
    new_top = jnp.maximum(top, jnp.max(s, axis=1, keepdims=True))
    weights, keep = jnp.exp2(s - new_top), jnp.exp2(top - new_top)
    product = jnp.dot(weights.astype(values.dtype), values, preferred_element_type=jnp.float32)
    total = keep * total + jnp.sum(weights, axis=1, keepdims=True)
    return new_top, total, keep * acc + product
'''
_OWN = ("one", "count", "total", "scores", "total_ref", "top_ref", "acc_ref", "keep", "together")


def side_by_side(a: Attention) -> bool:
    """Whether the strategy knows this attention."""
    heads, rows, *_ = a.sizes
    scalars = all(not extra.rows and not extra.cols for extra in a.extras)
    alone = a.kv_heads == heads and a.program.extent(a.v.heads) == heads
    plain = not (a.mask.causal or a.sink or a.k.parts)
    return rows <= FEWEST_ROWS and scalars and alone and plain


def few_module(
    info: TaskInfo, a: Attention, tunables: TunableSpace, vmem_limit: int, story: str
) -> str:
    """Source of one attention kernel; raises Unsupported where scores depend on the query's
    position."""
    names = Names([*TAKEN, *OWN, *_OWN])
    arguments = parameters(info, Names([*OWN, *_OWN]))
    arrays = tuple(array_names(info, arguments))
    module = Module("Flash attention of few queries.", story, tunables)
    extra_names = {e.term: names.new(f"{arrays[e.use.index]}_part") for e in a.read}
    plan = Plan(a, "few", extra_names)
    text = _body(plan, module)
    module.constants["VMEM_LIMIT_BYTES"] = (f"{vmem_limit >> 20} * 2**20", "")
    module.constants["ROWS"] = ("16", "of a tile: queries are whole tiles")
    module.constants["LANES"] = ("128", "of a vector: blocks of keys lie along them")
    module.helpers.add(FLATTEN)
    module.functions += [text, _kernel(plan, arguments, arrays, tunables, module)]
    return module.render()


def _body(plan: Plan, module: Module) -> str:
    a = plan.attention
    module.helpers.add(_UPDATE)
    module.constants.setdefault("LOWEST", ("-1e30", "stands for a score that is not visible"))
    refs = ["q_ref", "k_ref", "v_ref", *(f"{plan.names[e.term]}_ref" for e in a.read), "out_ref"]
    refs += ["top_ref", "total_ref", "acc_ref", "*", "key_count"]
    written = modified(plan, module)
    used = names_in("\n".join(written))
    if "row" in used:
        raise Unsupported("scores of few queries that depend on the query's position")
    head = ["        h = first + one"] if a.read else []
    column = "start + jax.lax.broadcasted_iota(jnp.int32, (1, key_block), 1)"
    return "\n".join(
        [
            call("body", refs, 0, "def ", ":"),
            doc("All queries of some heads against one block of keys; the heads overlap.", 4),
            "    count, key_block = k_ref.shape[:2]",
            *(["    heads = pl.num_programs(0) * count"] if "heads" in used else []),
            *(["    first = pl.program_id(0) * count"] if head else []),
            "    j = pl.program_id(1)",
            "    start = j * key_block",
            "",
            "    @pl.when(j == 0)",
            "    def begin():",
            "        top_ref[...] = jnp.full(top_ref.shape, LOWEST)",
            "        total_ref[...] = jnp.zeros(total_ref.shape, jnp.float32)",
            "        acc_ref[...] = jnp.zeros(acc_ref.shape, jnp.float32)",
            "",
            "    def score(one, masked):",
            doc("Scores of one head, as powers of two.", 8),
            *head,
            f"        q = {scaled(a, module).replace('q_ref[0]', 'q_ref[one]')}",
            call("jax.lax.dot_general", ["q", "k_ref[one]", *numbers_of(a)], 8, "s = "),
            f"        column = {column}",
            *(f"        {line}" for line in written),
            "        if masked:",
            "            s = jnp.where(column < key_count, s, -jnp.inf)",
            "        return s",
            "",
            "    def step(masked=False):",
            "        scores = [score(one, masked) for one in range(count)]",
            "        for one, s in enumerate(scores):",
            "            seen = top_ref[one], total_ref[one], acc_ref[one]",
            "            top_ref[one], total_ref[one], acc_ref[one] = update(*seen, s, v_ref[one])",
            "",
            *WHOLE,
            "",
            "    @pl.when(j == pl.num_programs(1) - 1)",
            "    def finish():",
            "        out_ref[...] = (acc_ref[...] / total_ref[...]).astype(out_ref.dtype)",
        ]
    )


def _kernel(
    plan: Plan,
    arguments: list[str],
    arrays: tuple[str, ...],
    tunables: TunableSpace,
    module: Module,
) -> str:
    a = plan.attention
    defaults = [f"{name}={choices[0]}" for name, choices in tunables.items()]
    shapes, changed, (q, k, v) = arranged(a, arrays, module)
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("Some heads at a time, their blocks of keys in order.", 4),
        *changed,
        f"    q_heads = {q}",
        "    length = q_heads.shape[-2]",
        "    queries = flatten(q_heads, ROWS)",
        f"    key_count = {key_count(a, arrays[a.k.use.index])}",
        "    key_block = min(key_block, pl.cdiv(key_count, LANES) * LANES)",
        call("flatten", [k, "key_block"], 4, "keys = "),
        call("flatten", [v, "key_block"], 4, "values = "),
        "    heads, rows, width = queries.shape",
        "    value_width = values.shape[2]",
        "    count = math.gcd(together, heads)",
    ]
    blocks = [("rows, width", "0"), ("key_block, width", "j"), ("key_block, value_width", "j")]
    specs = [f"pl.BlockSpec((count, {size}), lambda i, j: (i, {at}, 0))" for size, at in blocks]
    passed = ["queries", "keys", "values"]
    for extra in a.read:
        name = plan.names[extra.term]
        prepared, _ = extra_array(extra, name, arrays[extra.use.index], shapes, module)
        lines += [f"    {line}" for line in prepared]
        specs.append("pl.BlockSpec(memory_space=pltpu.SMEM)")
        passed.append(name)
    scratch = [
        "pltpu.VMEM((count, rows, 1), jnp.float32)",
        "pltpu.VMEM((count, rows, 1), jnp.float32)",
        "pltpu.VMEM((count, rows, value_width), jnp.float32)",
    ]
    parts = [
        "functools.partial(body, key_count=key_count)",
        "grid=(heads // count, values.shape[1] // key_block)",
        sequence(specs, 8, "in_specs="),
        "out_specs=pl.BlockSpec((count, rows, value_width), lambda i, j: (i, 0, 0))",
        f"out_shape=jax.ShapeDtypeStruct((heads, rows, value_width), jnp.{a.output.dtype})",
        sequence(scratch, 8, "scratch_shapes="),
        compiler_params(["parallel", "arbitrary"]),
    ]
    lines.append(call("pl.pallas_call", parts, 4, "out = ") + f"({', '.join(passed)})")
    lines += [f"    {line}" for line in restored(a.program, a.q, a.result, a.output)]
    return "\n".join(lines)
