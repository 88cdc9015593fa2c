"""Accepted kernels that no confirmation lets through: the run says why it ends without one."""

from __future__ import annotations

from pathlib import Path

from graph_world import World, context_of, open_run

from maxkernel.judge import Prepared
from maxkernel.modes import run_auto, run_graph
from maxkernel.search.settings import SearchSettings
from maxkernel.types import Budget, Candidate, Confirmation, Failure

BUDGET = Budget(candidates=6, patience=100)


class Doubting(World):
    """A judge that confirms nothing."""

    def confirm(self, prepared: Prepared, candidate: Candidate) -> Confirmation:
        """Another program at full size."""
        failure = Failure("check", "mismatch", "the full-size program is another one")
        return Confirmation(failure, seeds=0, hazard_runs=0)


def test_both_modes_say_why_nothing_was_confirmed(tmp_path: Path) -> None:
    for name, drive in (("auto", run_auto), ("graph", lambda c: run_graph(c, SearchSettings()))):
        with open_run(tmp_path / name, BUDGET) as run:
            found = drive(context_of(run, Doubting(), BUDGET))
            assert any(e.accepted for _, e in run.evaluations())
        assert found.outcome != "faster" and not found.confirmed
        assert "not confirmed: the full-size program is another one" in found.explanation
