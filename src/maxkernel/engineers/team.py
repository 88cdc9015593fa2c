"""A team: one engineer per role."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.roles import Debugger, Implementer, Planner, Profiler, Tuner


@dataclass(frozen=True)
class Team:
    """Who fills which role. Roles may be filled by engineers of different kinds."""

    planner: Planner
    implementer: Implementer
    debugger: Debugger
    tuner: Tuner
    profiler: Profiler

    @staticmethod
    def builtin() -> Team:
        """The team that works from the operator graph alone: no model, no network."""
        from maxkernel.engineers.builtin import (
            BuiltinDebugger,
            BuiltinImplementer,
            BuiltinPlanner,
            BuiltinProfiler,
            BuiltinTuner,
        )

        return Team(
            planner=BuiltinPlanner(),
            implementer=BuiltinImplementer(),
            debugger=BuiltinDebugger(),
            tuner=BuiltinTuner(),
            profiler=BuiltinProfiler(),
        )
