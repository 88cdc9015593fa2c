"""Recognises one convolution of inputs, what follows it, and the statistics in between."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Axis, Dim, Dims, Unsupported
from maxkernel.engineers.builtin.convolutions import Conv
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import REDUCTIONS, InputUse, Program


@dataclass(frozen=True)
class Statistic:
    """A mean or sum over the pixels of a channel, of its group, or of the channel in all images.

    `about`: the mean that a second moment is taken about, which is found in the same sweep.
    """

    term: int
    level: int
    """Sweeps over the pixels after which it is known."""
    about: int | None
    across: bool
    """It runs over the images as well."""
    run: int
    """Consecutive channels that share it."""


@dataclass(frozen=True)
class ConvProgram:
    """A convolution of two inputs with its epilogue; one result of full size."""

    program: Program
    term: int
    conv: Conv
    x: InputUse
    w: InputUse
    params: tuple[int, ...]
    """Inputs of the epilogue: one value per output channel, or a scalar."""
    statistics: tuple[Statistic, ...]
    order: tuple[int, ...]
    """Where the result's dimensions are among (images, channels, spatial...)."""

    @property
    def channels(self) -> Dim:
        """Axes of the output channels."""
        return self.conv.dims[self.conv.out[1]]

    @property
    def sweeps(self) -> int:
        """Times that the convolution is computed: once per level of statistics, and at last."""
        return 1 + max((s.level for s in self.statistics), default=0)

    @property
    def across(self) -> bool:
        """Statistics run over all images."""
        return any(s.across for s in self.statistics)

    @property
    def terms(self) -> list[int]:
        """Everything that follows the convolution, inputs included."""
        reached = self.program.reach([self.program.outputs[0].term], stop=self.term.__eq__)
        return [t for t in reached if t != self.term]


def match(program: Program) -> ConvProgram:
    """The program as one convolution; raises Unsupported with the reason."""
    convs = [t for t in program.live() if program[t].op == "conv"]
    if len(convs) != 1:
        raise Unsupported(f"it holds {len(convs) or 'no'} convolutions")
    (term,) = convs
    conv: Conv = program[term].attr("conv")
    _check_geometry(conv)
    sides = [program[a] for a in program[term].args]
    if any(side.op != "input" for side in sides):
        raise Unsupported("an operand of the convolution is computed")
    x, w = (program.input(a) for a in program[term].args)
    if len(program.outputs) != 1:
        raise Unsupported("more than one result")
    everything = program.reach([program.outputs[0].term], stop=term.__eq__)
    dims = tuple(conv.dims[i] for i in conv.out)
    params: list[int] = []
    for t in everything:
        op = program[t].op
        if t == term:
            continue
        if op in ("dot", "iota", "size", "cumsum"):
            raise Unsupported(f"`{op}` follows the convolution")
        if op == "input":
            if flat(program.input(t).dims) not in ((), dims[1]):
                raise Unsupported(f"`{program.input(t).name}` is more than a value per channel")
            params.append(t)
    found = _statistics(program, everything, dims)
    if len({s.across for s in found}) > 1:
        raise Unsupported("statistics of images and statistics over images")
    return ConvProgram(
        program, term, conv, x, w, tuple(params), found, _order(program.outputs[0].dims, dims)
    )


def _check_geometry(conv: Conv) -> None:
    rank = len(conv.lhs)
    ones = (1,) * (rank - 2)
    if rank not in (4, 5):
        raise Unsupported(f"a convolution over {rank - 2} dimensions")
    if conv.lhs != tuple(range(rank)):
        raise Unsupported("the images do not lie as (images, channels, pixels)")
    if conv.strides != ones or conv.rhs_dilation != ones:
        raise Unsupported("a convolution with strides or dilated weights")
    if conv.lhs_dilation != ones:
        raise Unsupported("a transposed convolution")
    if conv.groups != 1:
        raise Unsupported("a grouped convolution")
    if any(side < 0 for pair in conv.padding for side in pair):
        raise Unsupported("a convolution that crops its input")
    if "HIGH" in conv.precision:
        raise Unsupported("a convolution at more than the default precision")
    if {conv.lhs_dtype, conv.rhs_dtype} - {"bfloat16", "float32"}:
        raise Unsupported(f"a convolution of {conv.lhs_dtype} and {conv.rhs_dtype}")


def _order(lies: Dims, dims: Dims) -> tuple[int, ...]:
    """The place of each of an output's dimensions among those of the convolution."""
    left = list(range(len(dims)))
    order: list[int] = []
    for dim in lies:
        place = next((i for i in left if dims[i] == dim), None)
        if place is None:
            raise Unsupported("the result is not of the convolution's size")
        left.remove(place)
        order.append(place)
    if left:
        raise Unsupported("the result is not of the convolution's size")
    return tuple(order)


def _statistics(program: Program, terms: list[int], dims: Dims) -> tuple[Statistic, ...]:
    level: dict[int, int] = {}
    found: dict[int, Statistic] = {}
    for t in terms:
        term = program[t]
        level[t] = max((level.get(a, 0) for a in term.args), default=0)
        if term.op not in REDUCTIONS:
            continue
        about = _about(program, t, found)
        if about is None:
            level[t] += 1
        else:
            level[t] = found[about].level
        across, run = _extent(program, t, dims)
        found[t] = Statistic(t, level[t], about, across, run)
    return tuple(found.values())


def _about(program: Program, term: int, found: dict[int, Statistic]) -> int | None:
    """m when the term is a mean or sum of (y - m) squared and m is the mean of y."""
    t = program[term]
    inner = program[t.args[0]]
    if inner.op != "square" or program[inner.args[0]].op != "sub":
        return None
    value, mean = program[inner.args[0]].args
    m = program[mean]
    same = mean in found and m.op == "mean" and m.args == (value,) and found[mean].about is None
    return mean if same and m.attr("over") == t.attr("over") else None


def _extent(program: Program, term: int, dims: Dims) -> tuple[bool, int]:
    """(over the images too, consecutive channels) of a reduction over all pixels."""
    t = program[term]
    over = set[Axis](t.attr("over"))
    if t.op not in ("mean", "sum"):
        raise Unsupported(f"`{t.op}` follows the convolution")
    images, channels, pixels = dims[0], dims[1], set(flat(dims[2:]))
    if not pixels <= over:
        raise Unsupported("a reduction over something else than all pixels of a channel")
    among = over - pixels
    across = bool(images) and set(images) <= among
    among -= set(images) if across else set()
    tail = channels[len(channels) - len(among) :] if among else ()
    if among != set(tail):
        raise Unsupported("a reduction over channels that do not lie together")
    if program[t.args[0]].axes != frozenset(flat(dims)):
        raise Unsupported("a reduction of something else than pixels")
    return across, program.extent(tail)
