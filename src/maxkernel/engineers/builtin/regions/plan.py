"""Which parts of a program become kernels, and the module that joins them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.canon import canonicalise
from maxkernel.engineers.builtin.cuts import without_repeats
from maxkernel.engineers.builtin.families import FAMILIES, ROTARY, Family, GraphFamily
from maxkernel.engineers.builtin.module import Module, array_names, parameters, plain
from maxkernel.engineers.builtin.regions.find import (
    Core,
    Region,
    cores,
    product_flops,
    products_of,
    regions,
    rotation_regions,
    row_regions,
)
from maxkernel.engineers.builtin.regions.flow import Flow
from maxkernel.engineers.builtin.regions.join import Part, joined, take_apart
from maxkernel.engineers.builtin.text import Names, add_return, call, doc, statement
from maxkernel.engineers.builtin.xla import Writer
from maxkernel.targets import Target, peak_rate
from maxkernel.types import Plan, TaskInfo, TunableSpace

NAME = "regions"
COLLAPSED = "collapsed"
"""The name of plans for a program whose sums over outputs were taken into the weights."""
_STORIES = {
    NAME: "Kernels for {what}; what stands around them is left to XLA.",
    COLLAPSED: "Columns of a product that are only summed: the weights are summed instead, by XLA,"
    "\nand the product has one column per sum.",
}
_SMALL = 0.02
"""Share of a program's arithmetic below which a product is not worth a kernel."""
_XLA_SHARE = 0.9
"""Of peak that XLA's own products reach, for estimates."""
_FAMILY = {
    "attention": "attention",
    "convolution": "conv",
    "product": "matmul",
    "pair": "products",
    "rows": "rowwise",
}
"""Whose reason to refuse a part is worth telling, by the kind of the part."""


@dataclass(frozen=True)
class Border:
    """Where the region of a program's main core ends and begins, where not as far as it can."""

    ends: int = 0
    """Farther ends that a family knows and that are left out: what follows is a consumer."""
    producers: int = 0
    """Elementwise operations before the core that are taken in."""

    @staticmethod
    def of(plan: Plan) -> Border:
        """The border that a plan asks for."""
        ends, producers = (plan.options.get(name, 0) for name in ("ends", "producers"))
        return Border(int(ends), int(producers))

    @property
    def options(self) -> dict[str, int | float | bool | str]:
        """As options of a plan; none for the usual border."""
        return {k: v for k, v in (("ends", self.ends), ("producers", self.producers)) if v}


USUAL = Border()


@dataclass(frozen=True)
class Choice:
    """A region and the plan of the family that writes its kernel."""

    region: Region
    family: Family | GraphFamily
    plan: Plan


def plans(info: TaskInfo, target: Target, name: str = NAME) -> list[Plan]:
    """Sets of regions that become kernels, as plans of the family `name`; raises Unsupported where
    no family knows a part."""
    info = without_repeats(info)
    found: list[Plan] = []
    for choices in sets(survey(info, target)):
        _module(info, choices, target, _STORIES[name])  # Raises where it cannot be written.
        found.append(_plan(info, choices, target, name))
    return found


def implement(info: TaskInfo, plan: Plan, target: Target) -> str:
    """Source for one of these plans."""
    info = without_repeats(info)
    for choices in sets(survey(info, target), Border.of(plan)):
        if strategy_of(choices) == plan.strategy:
            return _module(info, choices, target, _STORIES[plan.family])
    raise Unsupported(f"no strategy is called {plan.strategy!r}")


@dataclass(frozen=True)
class Survey:
    """What families know of a program's parts."""

    info: TaskInfo
    target: Target
    flow: Flow
    rich: Sequence[Core]
    """Cores that become kernels, the main one first; none where the sets are given."""
    best: Mapping[Core, list[Choice]]
    given: Sequence[list[Choice]] = ()


def survey(info: TaskInfo, target: Target) -> Survey:
    """Looks at every part once; raises Unsupported where no family knows one."""
    flow = Flow(info.graph)
    found = cores(flow)
    total = sum(core.flops(info.graph) for core in found)
    large = [core for core in found if core.flops(info.graph) >= _SMALL * total]
    reasons: list[str] = []
    best = {core: _planned(regions(flow, core, info), target, reasons) for core in large}
    for core in [core for core in large if not best[core]]:
        for single in core.alone():
            best[single] = _planned(regions(flow, single, info), target, reasons)
    known = sorted((c for c in best if best[c]), key=lambda c: -c.flops(info.graph))
    if not known:
        turned = _rotations(flow, info, target, reasons)
        rows = [] if turned else _planned(row_regions(flow, info), target, reasons)
        if turned or rows:
            given = [turned] if turned else [[choice] for choice in rows]
            return Survey(info, target, flow, (), best, given)
        raise Unsupported(reasons[0] if reasons else "it holds no large product")
    rich = [core for core in known if core.kind != "product" or _reduces(best[core][0])]
    return Survey(info, target, flow, rich or known[:1], best)


def sets(known: Survey, border: Border = USUAL) -> list[list[Choice]]:
    """The sets of choices that are offered, each in the order of its regions. Raises Unsupported
    where no family knows a region with that border."""
    if not known.rich:
        if border != USUAL:
            raise Unsupported("a part without a product has no border to move")
        return list(known.given)
    first, *others = known.rich
    main = known.best[first]
    if border != USUAL:
        wider = regions(known.flow, first, known.info, border.producers)
        main = _planned(wider, known.target, [], border.ends)
        if not main:
            raise Unsupported("no family knows a region with that border")
    return [_apart([choice, *(known.best[core][0] for core in others)]) for choice in main]


def _rotations(flow: Flow, info: TaskInfo, target: Target, reasons: list[str]) -> list[Choice]:
    found: list[Choice] = []
    for region in rotation_regions(flow, info):
        try:
            made = ROTARY.plans(region.info, target)
        except Unsupported as why:
            reasons.append(f"the rotation: {why}")
            continue
        found += [Choice(region, ROTARY, plan) for plan in made]
    return found


def _apart(choices: Sequence[Choice]) -> list[Choice]:
    """Those that share no operation with one before them, in the order of the program."""
    kept: list[Choice] = []
    for choice in choices:
        if not any(choice.region.nodes & other.region.nodes for other in kept):
            kept.append(choice)
    return sorted(kept, key=lambda c: c.region.core.products)


def _reduces(choice: Choice) -> bool:
    ops = {node.op for node in choice.region.info.graph.nodes}
    return any(op.startswith("reduce_") for op in ops)


def _planned(
    found: Iterable[Region], target: Target, reasons: list[str], skipped: int = 0
) -> list[Choice]:
    """Plans for the first of some regions that a family knows, the fastest first; `skipped`: so
    many ends that are known come first."""
    ends = set[int]()
    for region in found:
        if region.output in ends:
            continue
        kind = region.core.kind
        choices: list[Choice] = []
        try:
            program = canonicalise(region.info)
        except Unsupported as why:
            reasons.append(f"the {kind}: {why}")
            continue
        for family in FAMILIES:
            try:
                made = family.plans(region.info, program, target)
            except Unsupported as why:
                if family.name == _FAMILY[kind]:
                    reasons.append(f"the {kind}: {why}")
                continue
            choices += [Choice(region, family, plan) for plan in made]
        if choices and len(ends) < skipped:
            ends.add(region.output)
        elif choices:
            return sorted(choices, key=lambda c: c.plan.expected_seconds or 0.0)
    return []


def strategy_of(choices: Sequence[Choice]) -> str:
    parts = [f"{c.plan.family}: {c.plan.strategy}" for c in choices]
    several = [f"{parts.count(p)} x {p}" if parts.count(p) > 1 else p for p in dict.fromkeys(parts)]
    return f"{'; '.join(several)}; the rest left to XLA"


def _plan(info: TaskInfo, choices: Sequence[Choice], target: Target, name: str) -> Plan:
    inside = {p for c in choices for p in c.region.core.products}
    outside = set(products_of(Flow(info.graph))) - inside
    rest = sum(product_flops(info.graph, p) for p in sorted(outside))
    rate = peak_rate(target, "bfloat16") * _XLA_SHARE
    seconds = sum(c.plan.expected_seconds or 0.0 for c in choices) + rest / rate
    reason = " ".join(f"{c.plan.family}: {c.plan.reason.rstrip('.')}." for c in choices)
    return Plan(name, strategy_of(choices), reason, {}, seconds)


def _module(info: TaskInfo, choices: Sequence[Choice], target: Target, story: str) -> str:
    """The functions of all regions, and the one that calls them."""
    names = Names()
    made: dict[str, tuple[str, dict[str, str]]] = {}
    calls: list[tuple[str, dict[str, str]]] = []
    tunables: TunableSpace = {}
    parts: list[Part] = []
    for choice in choices:
        source = _source(choice, target)
        if source not in made:
            function = names.new(choice.region.core.kind)
            part = take_apart(source, function)
            own = {name: _fresh(name, tunables) for name in part.tunables}
            tunables.update({own[name]: space for name, space in part.tunables.items()})
            parts.append(part)
            made[source] = function, own
        calls.append(made[source])
    what = " and ".join(dict.fromkeys(c.region.core.kind for c in choices))
    module = Module(
        f"{what.capitalize()} in kernels of their own.", story.format(what=what), tunables
    )
    joined(parts, module)
    taken = [*tunables, *module.constants, *(n for p in parts for n in p.functions)]
    module.functions.append(_kernel(info, choices, calls, tunables, Names(taken)))
    return module.render()


def _source(choice: Choice, target: Target) -> str:
    info = choice.region.info
    if isinstance(choice.family, GraphFamily):
        return choice.family.implement(info, choice.plan, target)
    return choice.family.implement(info, canonicalise(info), choice.plan, target)


def _fresh(name: str, taken: TunableSpace) -> str:
    if name not in taken:
        return name
    return next(f"{name}_{i}" for i in range(2, 100) if f"{name}_{i}" not in taken)


def _kernel(
    info: TaskInfo,
    choices: Sequence[Choice],
    calls: Sequence[tuple[str, dict[str, str]]],
    tunables: TunableSpace,
    names: Names,
) -> str:
    arguments = parameters(info, names)
    arrays = array_names(info, arguments)
    constants = {arguments[i]: value for i, value in info.statics.items()}
    writer = Writer(info.graph, arrays, names, constants)
    defaults = [f"{name}={plain(options[0])}" for name, options in tunables.items()]
    for choice, (function, own) in zip(choices, calls, strict=True):
        given = [writer.value(v) for v in choice.region.inputs]
        given += [f"{name}={outer}" for name, outer in own.items()]
        result = names.new("out" if choice.region.output in info.graph.outputs else "result")
        writer.lines.append(statement(function, given, result))
        writer.known[choice.region.output] = result
    returned = ", ".join(writer.result(v) for v in info.graph.outputs)
    add_return(writer.lines, returned)
    lines = [
        call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
        doc("What stands around the kernels is left to XLA.", 4),
        *(f"    {line}" for text in writer.lines for line in text.split("\n")),
    ]
    return "\n".join(lines)
