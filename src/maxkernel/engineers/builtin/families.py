"""The families that the built-in engineer knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from maxkernel.engineers.builtin import (
    attention,
    conv,
    grouped,
    matmul,
    paged,
    products,
    recurrence,
    rotary,
    rowwise,
    scaled,
    scans,
    updates,
)
from maxkernel.engineers.builtin.terms import Program
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo


@dataclass(frozen=True)
class Family:
    """A class of programs with a design space. Both functions raise Unsupported with a reason."""

    name: str
    plans: Callable[[TaskInfo, Program, Target], list[Plan]]
    implement: Callable[[TaskInfo, Program, Plan, Target], str]


@dataclass(frozen=True)
class GraphFamily:
    """A class of programs that is recognised on the operator graph itself, where it has operations
    that terms do not know. Both functions raise Unsupported with a reason."""

    name: str
    plans: Callable[[TaskInfo, Target], list[Plan]]
    implement: Callable[[TaskInfo, Plan, Target], str]


FAMILIES = (
    Family("rowwise", rowwise.plans, rowwise.implement),
    Family("matmul", matmul.plans, matmul.implement),
    Family("attention", attention.plans, attention.implement),
    Family("conv", conv.plans, conv.implement),
    Family("scans", scans.plans, scans.implement),
    Family("scaled", scaled.plans, scaled.implement),
    Family("products", products.plans, products.implement),
    Family("updates", updates.plans, updates.implement),
)
ROTARY = GraphFamily("rotary", rotary.plans, rotary.implement)
GRAPH_FAMILIES = (
    GraphFamily("paged", paged.plans, paged.implement),
    GraphFamily("grouped", grouped.plans, grouped.implement),
    GraphFamily("recurrence", recurrence.plans, recurrence.implement),
    ROTARY,
)
