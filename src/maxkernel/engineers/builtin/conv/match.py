"""Recognises one convolution of inputs, what follows it, and the statistics in between."""

from __future__ import annotations

from dataclasses import dataclass, replace

from maxkernel.engineers.builtin.axes import Axis, Dim, Dims, Unsupported
from maxkernel.engineers.builtin.conv.linear import collapsed
from maxkernel.engineers.builtin.convolutions import Conv
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import REDUCTIONS, InputUse, Program


@dataclass(frozen=True)
class Statistic:
    """A mean, sum, maximum or minimum over the pixels of a channel, a mean or sum over those of its
    group, or of the channel in all images.

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
    """A convolution of two inputs with its epilogue; one result of full size, of one value per
    pixel (channels reduced) or of no pixels at all (pooled)."""

    program: Program
    term: int
    conv: Conv
    x: InputUse
    w: InputUse
    params: tuple[int, ...]
    """Inputs of the epilogue: one value per output channel, or a scalar."""
    statistics: tuple[Statistic, ...]
    folds: tuple[int, ...]
    """Reductions over all channels, pixel by pixel or of what no longer depends on pixels."""
    order: tuple[int | None, ...]
    """Where the result's dimensions are among (images, channels, spatial...); None: of size 1."""
    collapsed: bool = False
    """A mean of normalised values comes from their statistics alone."""

    @property
    def channels(self) -> Dim:
        """Axes of the output channels."""
        return self.conv.dims[self.conv.out[1]]

    @property
    def kept(self) -> tuple[int, ...]:
        """Dimensions of (images, channels, spatial...) that the result has, in its order."""
        return tuple(place for place in self.order if place is not None)

    @property
    def pooled(self) -> bool:
        """The result has no pixels."""
        return max(self.kept, default=0) < 2

    @property
    def whole(self) -> bool:
        """The result is of the convolution's size."""
        return len(self.kept) == len(self.conv.dims)

    @property
    def levels(self) -> int:
        """Sweeps over the pixels before every statistic is known."""
        return max((s.level for s in self.statistics), default=0)

    @property
    def sweeps(self) -> int:
        """Times that the convolution is computed: once per level of statistics, and at last."""
        return self.levels + (not self.pooled)

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
    """The program as one convolution; raises Unsupported with the reason.

    A mean that waits for other statistics is taken from them where it is linear in the rest.
    """
    conv = _matched(program)
    if not conv.pooled or conv.levels < 2:
        return conv
    pixels = frozenset(flat([conv.conv.dims[i] for i in conv.conv.out[2:]]))
    simpler = _matched(collapsed(program, pixels))
    return replace(simpler, collapsed=True) if simpler.levels < conv.levels else conv


def _matched(program: Program) -> ConvProgram:
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
    found, folds = _reductions(program, everything, dims)
    if len({s.across for s in found}) > 1:
        raise Unsupported("statistics of images and statistics over images")
    order = _order(program.outputs[0].dims, dims)
    return ConvProgram(program, term, conv, x, w, tuple(params), found, folds, order)


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


def _order(lies: Dims, dims: Dims) -> tuple[int | None, ...]:
    """The place of each of an output's dimensions among those of the convolution."""
    left = list(range(len(dims)))
    order: list[int | None] = []
    for dim in lies:
        place = next((i for i in left if dims[i] == dim), None)
        if place is not None:
            left.remove(place)
        elif dim:
            raise Unsupported("the result is not of the convolution's dimensions")
        order.append(place)
    gone = [i for i in left if dims[i]]
    pixels = [i for i in range(2, len(dims)) if dims[i]]
    if 0 in gone or 0 < len(set(pixels) & set(gone)) < len(pixels):
        raise Unsupported("the result has some dimensions of the images and lacks others")
    return tuple(order)


def _reductions(
    program: Program, terms: list[int], dims: Dims
) -> tuple[tuple[Statistic, ...], tuple[int, ...]]:
    """Statistics of pixels, and reductions over channels."""
    level: dict[int, int] = {}
    found: dict[int, Statistic] = {}
    folds: list[int] = []
    for t in terms:
        term = program[t]
        level[t] = max((level.get(a, 0) for a in term.args), default=0)
        if term.op not in REDUCTIONS:
            continue
        if set[Axis](term.attr("over")) == set(dims[1]):
            folds.append(t)
            continue
        about = _about(program, t, found)
        if about is None:
            level[t] += 1
        else:
            level[t] = found[about].level
        across, run = _extent(program, t, dims)
        found[t] = Statistic(t, level[t], about, across, run)
    return tuple(found.values()), tuple(folds)


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
    if t.op not in ("mean", "sum") and (across or tail):
        raise Unsupported(f"`{t.op}` over more than the pixels of a channel")
    return across, program.extent(tail)
