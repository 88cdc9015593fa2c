"""The built-in implementer: writes the source that one of its own plans asks for."""

from __future__ import annotations

from maxkernel.engineers.builtin import regions
from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.canon import canonicalise
from maxkernel.engineers.builtin.collapse import collapsed
from maxkernel.engineers.builtin.families import FAMILIES, GRAPH_FAMILIES
from maxkernel.engineers.builtin.loops import without_loops
from maxkernel.engineers.builtin.units import without_units
from maxkernel.engineers.roles import NoAnswer
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo


class BuiltinImplementer:
    """Emits kernels for the families in `families`."""

    def implement(self, info: TaskInfo, plan: Plan, target: Target) -> str:
        """Source of the plan's kernel. Raises NoAnswer for a plan that is not the built-in's."""
        info = without_units(info)
        flat = without_loops(info)
        try:
            for family in FAMILIES:
                if family.name == plan.family:
                    return family.implement(flat, canonicalise(flat), plan, target)
            for family in GRAPH_FAMILIES:
                if family.name == plan.family:
                    return family.implement(info, plan, target)
            if plan.family == regions.NAME:
                return regions.implement(flat, plan, target)
            changed = collapsed(flat) if plan.family == regions.COLLAPSED else None
            if changed is not None:
                return regions.implement(changed, plan, target)
        except Unsupported as why:
            raise NoAnswer(f"{plan.family}, {plan.strategy}: {why}") from why
        raise NoAnswer(f"the built-in engineer has no family {plan.family!r}")
