"""A team: one engineer per role."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.roles import (
    Debugger,
    Explainer,
    Implementer,
    Mover,
    Planner,
    Profiler,
    Tester,
    Tuner,
)


@dataclass(frozen=True)
class Team:
    """Who fills which role. Roles may be filled by engineers of different kinds."""

    planner: Planner
    implementer: Implementer
    debugger: Debugger
    tuner: Tuner
    profiler: Profiler
    mover: Mover | None = None
    explainer: Explainer | None = None
    """Answers people's questions; None where only the built-in words are at hand."""

    tester: Tester | None = None
    """Thinks of hard inputs, which the judge runs; None where only its own distributions are."""

    @staticmethod
    def builtin() -> Team:
        """The team that works from the operator graph alone: no model, no network."""
        from maxkernel.engineers.builtin import (
            BuiltinDebugger,
            BuiltinImplementer,
            BuiltinMover,
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
            mover=BuiltinMover(),
        )
