"""How arrays lie: heads first for the kernel, and back to the output's own dimensions."""

from __future__ import annotations

from maxkernel.engineers.builtin.attention.sides import Side
from maxkernel.engineers.builtin.axes import Dim
from maxkernel.engineers.builtin.module import Shapes
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import InputUse, Output, Program
from maxkernel.engineers.builtin.text import WIDTH

FLATTEN = '''def flatten(x, block):
    """One slice per head, (heads, positions, width), zeros up to whole blocks."""
    x = x.reshape(-1, *x.shape[-2:])
    tail = -x.shape[1] % block
    return jnp.pad(x, ((0, 0), (0, tail), (0, 0))) if tail else x
'''


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
