"""The body of a convolution kernel whose images lie in lanes: one slice of the volumes a step."""

from __future__ import annotations

from dataclasses import replace

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.conv.match import ConvProgram, Statistic
from maxkernel.engineers.builtin.conv.planes_sums import OVER_RUN, PlaneSums
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.text import Names, call, doc

TAKEN = (
    "volumes weights matrix filters channels depth rows cols tall width count last out in_lanes "
    "banded x_ref w_ref out_ref slices_ref product clear gather guess finish step row first taps "
    "lanes outs at d r c i n carry value total shift over_run kd kh kw pads size pixels".split()
)
"""Names that the module uses itself."""
_PRODUCT = '''
    i = pl.program_id(1)
    channels, lanes = x_ref.shape[0], x_ref.shape[4]
    filters = w_ref.shape[0] // outs
    slices_ref[i % kd] = x_ref[:, 0].astype(jnp.float32)

    def product(row, first):
        """A window of every tap: (columns of the result, filters, images)."""
        taps = []
        for d in range(kd):
            for r in range(kh):
                at = (row + r, pl.ds(first, WINDOW))
                for c in range(channels):
                    taps.append(slices_ref[(i + 1 + d) % kd, c, *at])
        taps = jnp.concatenate(taps, axis=0).astype(jnp.bfloat16)
        out = jnp.dot(w_ref[...], taps, preferred_element_type=jnp.float32)
        return out.reshape(outs, filters, lanes)[: cols - first]
'''


def body(conv: ConvProgram, refs: list[str], module: Module, names: Names) -> tuple[str, list[str]]:
    """(source of `body`, its statistics' Refs: (filters, images) in float32)."""
    sums = replace(PlaneSums.of(conv, refs, module, names), at="[...]")
    keywords = ["*", "kd", "kh", "outs", "rows", "cols", "last"]
    parameters = ["x_ref", "w_ref", *refs, "out_ref", "slices_ref", *sums.refs, *keywords]
    lines = [
        call("body", parameters, 0, "def ", ":"),
        doc("Keeps the last slices of the volumes; products follow once all are there.", 4),
        *_PRODUCT.strip("\n").split("\n"),
        *(f"    {line}".rstrip() for line in [*_gather(sums), *_finish(sums)]),
    ]
    return "\n".join(lines), sums.refs


def _gather(sums: PlaneSums) -> list[str]:
    """Clears, guesses means, and adds a slice's pixels."""
    program = sums.conv.program
    plain = [s for s in sums.conv.statistics if s.about is None]
    if any(program[s.term].op not in ("mean", "sum") for s in plain):
        raise Unsupported("a maximum over the pixels of a volume")
    guessed = [s for s in plain if s.term in sums.guessed]
    before, lines, values = sums.write(1, [program[s.term].args[0] for s in plain])
    adds: list[str] = []
    for s, value in zip(plain, values, strict=True):
        text, ref = value.text, sums.stats[s.term]
        if s in guessed:
            middle, seen = sums.names.new("middle"), sums.names.new("seen")
            before.append(f"{middle} = {sums.guessed[s.term]}[...]")
            adds.append(f"{seen} = {value.at(10)} - {middle}")
            text = seen
        adds.append(f"{ref}[...] += jnp.sum({text}, axis=0)")
        for other in sums.conv.statistics:
            if other.about == s.term:
                adds.append(f"{sums.stats[other.term]}[...] += jnp.sum({text} * {text}, axis=0)")
    inner = ["c = product(row, first)", *lines, *adds]
    return [
        "",
        "@pl.when(i == 0)",
        "def clear():",
        *(f"    {ref}[...] = jnp.zeros_like({ref})" for ref in sums.stats.values()),
        *(_guess(sums, guessed) if guessed else []),
        "",
        "@pl.when(i >= kd - 1)",
        "def gather():",
        *(f"    {line}" for line in before),
        *([""] if before else []),
        "    def step(row, carry):",
        "        for first in range(0, cols, outs):",
        *(f"            {line}" for line in inner),
        "        return carry",
        "",
        "    jax.lax.fori_loop(0, rows, step, 0, unroll=2)",
    ]


def _guess(sums: PlaneSums, guessed: list[Statistic]) -> list[str]:
    program = sums.conv.program
    before, lines, values = sums.write(1, [program[s.term].args[0] for s in guessed])
    body = [*before, "c = product(0, 0)", *lines]
    for s, value in zip(guessed, values, strict=True):
        body.append(f"total = jnp.mean({value.text}, axis=0)")
        if s.run > 1:
            sums.module.helpers.add(OVER_RUN)
            body.append(f"total = over_run(total, {s.run}) / {s.run}")
        body.append(f"{sums.guessed[s.term]}[...] = total")
    return ["", "@pl.when(i == kd - 1)", "def guess():", *(f"    {line}" for line in body)]


def _finish(sums: PlaneSums) -> list[str]:
    """Sums become statistics, and these the result."""
    conv, program = sums.conv, sums.conv.program
    lines = ["pixels = (last + 2 - kd) * rows * cols"]
    for s in conv.statistics:
        if s.about is not None:
            continue
        ref = sums.stats[s.term]
        lines += _total(sums, ref, s)
        number = f"(pixels * {s.run})" if s.run > 1 else "pixels"
        if s.term not in sums.guessed:
            lines.append(f"{ref}[...] = total" + _over(program[s.term].op, number))
            continue
        lines += [f"shift = total / {number}", f"{ref}[...] = {sums.guessed[s.term]}[...] + shift"]
        for other in (o for o in conv.statistics if o.about == s.term):
            spread = sums.stats[other.term]
            lines += _total(sums, spread, other)
            value = f"total / {number} - shift * shift"
            scaled = program[other.term].op == "sum"
            lines.append(f"{spread}[...] = {f'({value}) * {number}' if scaled else value}")
    before, after, (value,) = sums.write(2, [program.outputs[0].term])
    lines += [*before, *after, f"value = {value.text}"]
    lines.append("out_ref[...] = jnp.broadcast_to(value, out_ref.shape).astype(out_ref.dtype)")
    return ["", "@pl.when(i == last)", "def finish():", *(f"    {line}" for line in lines)]


def _over(op: str, number: str) -> str:
    return f" / {number}" if op == "mean" else ""


def _total(sums: PlaneSums, ref: str, s: Statistic) -> list[str]:
    if s.run == 1:
        return [f"total = {ref}[...]"]
    sums.module.helpers.add(OVER_RUN)
    return [f"total = over_run({ref}[...], {s.run})"]
