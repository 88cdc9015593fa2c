"""Recognises a loop over chunks that carries states, and repeats itself over batches and heads."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.cuts import distinct
from maxkernel.engineers.builtin.recurrence.mapped import Classes, Place, mapped
from maxkernel.engineers.builtin.recurrence.single import single
from maxkernel.types import Graph, Node

LOOPS = ("scan", "while", "cond")


@dataclass(frozen=True)
class Recurrence:
    """A loop: `one` is its body for one index of each of the classes `chosen`, of which the last
    are the heads, without all classes `gone`; values of `heads` differ from head to head."""

    loop: Node
    one: Graph
    classes: Classes
    chosen: tuple[Place, ...]
    gone: frozenset[Place]
    heads: frozenset[int]
    fixed: int
    """Operands that every step sees whole; the body's first inputs."""
    carried: int
    """States: the inputs after those, and the first results."""

    @property
    def body(self) -> Graph:
        """The loop's body as it was."""
        return self.classes.body

    def is_state(self, position: int) -> bool:
        """Whether the body's input at a position is a state."""
        return self.fixed <= position < self.fixed + self.carried

    def is_stacked(self, position: int) -> bool:
        """Whether the body's input at a position has one entry per step."""
        return position >= self.fixed + self.carried

    def places(self, value: int) -> tuple[int | None, ...]:
        """The dimension of a value of the body that is in each chosen class, None where it has
        none."""
        members = (self.classes.members(value, of) for of in self.chosen)
        return tuple(found[0] if found else None for found in members)

    def of(self, value: int, dimension: int) -> Place:
        """The class of a dimension of one head's value, which the body has too."""
        return self.classes.of((value, self.kept(value)[dimension]))

    def kept(self, value: int) -> list[int]:
        """The dimensions of a value of the body that one head sees."""
        rank = len(self.body.values[value].shape)
        return [d for d in range(rank) if self.classes.of((value, d)) not in self.gone]

    def live(self) -> list[Node]:
        """The nodes that some result needs, in order."""
        wanted, nodes = set(self.one.outputs), list[Node]()
        for node in reversed(self.one.nodes):
            if wanted.intersection(node.outputs):
                wanted.update(node.inputs)
                nodes.append(node)
        return nodes[::-1]


def match(graph: Graph) -> Recurrence:
    """The graph's one loop as a recurrence; raises Unsupported with the reason."""
    loops = [node for node in graph.nodes if node.op in LOOPS]
    if len(loops) != 1 or loops[0].op != "scan":
        raise Unsupported("it is not one loop that carries a state")
    (loop,) = loops
    body = distinct(loop.bodies["jaxpr"])
    fixed, count = int(loop.params["num_consts"]), int(loop.params["num_carry"])
    if not count or loop.params["reverse"] or len(body.inputs) == fixed + count:
        raise Unsupported("the loop carries no state over stacked inputs from first to last")
    if any(node.op in LOOPS for node in body.nodes) or body.constants:
        raise Unsupported("a loop in the loop's body, or a table")
    if len(set(body.outputs)) != len(body.outputs) or set(body.outputs) & set(body.inputs):
        raise Unsupported("a state or result of the loop that is another one as it is")
    states = range(fixed, fixed + count)
    classes = Classes(body, states)
    chosen = mapped(classes, states, body.outputs[count:])
    gone = classes.gone(chosen)
    one = single(classes, gone)
    heads = _heads(classes, one, chosen[-1])
    return Recurrence(loop, one, classes, chosen, gone, heads, fixed, count)


def _heads(classes: Classes, one: Graph, of: Place) -> frozenset[int]:
    """The values that follow from an input with the dimension `of`."""
    found = {v for v in classes.body.inputs if classes.members(v, of)}
    for node in one.nodes:
        if found.intersection(node.inputs):
            found.update(node.outputs)
    return frozenset(found)
