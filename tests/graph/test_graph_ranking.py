"""Constants of a rewrite are ranked as those of what it was made of, where the model sees no
difference, and traced where it does."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from graph_world import REWRITING, World, context_of, open_run, prepared, source_of

from maxkernel.modes import run_graph
from maxkernel.search.constants import Constants
from maxkernel.search.decision import RANK_LIMIT
from maxkernel.search.inputs import Example
from maxkernel.search.job import CHOICE, RESULT, Job, JobResult
from maxkernel.search.ranking import rank
from maxkernel.search.settings import SearchSettings
from maxkernel.types import ArtifactFacts, Budget, Candidate, Design, PallasCall, Plan

BUDGET = Budget(candidates=40, patience=100)
PLAN = Plan("synthetic", "plain", "")
SAME = PallasCall("k", (32,), block_bytes=128 << 10)


@pytest.mark.parametrize(
    ("call", "spared"),
    [
        (SAME, True),
        (msgspec.structs.replace(SAME, name="other"), True),
        (msgspec.structs.replace(SAME, scratch_bytes=1), False),
        (msgspec.structs.replace(SAME, moved_bytes=1.0), False),
    ],
)
def test_only_what_the_model_cannot_tell_apart_is_spared(
    call: PallasCall, spared: bool, tmp_path: Path
) -> None:
    old = Design(1, PLAN, source_of(PLAN), "plan", ())
    options = Plan(PLAN.family, PLAN.strategy, "", {"unroll": True})
    new = Design(2, options, source_of(options), "refine: unroll", (1,))
    world = World()
    with open_run(tmp_path / "r", BUDGET) as run:
        context = context_of(run, world, BUDGET)
        found = rank(context, Job(0, "rank", 1, limit=6), old, None)
        assert found.captured == 6 and found.ranked
        for design, facts in ((old, SAME), (new, call)):
            evaluation = world.evaluate(prepared(), Candidate(design.source))
            seen = msgspec.structs.replace(evaluation, facts=ArtifactFacts((facts,)))
            run.add_evaluation(design.id, seen)
        known = Constants(dict(found.space), found.ranked, found.captured)
        digests = [Candidate(d.source).digest for d in (old, new)]
        again = rank(context, Job(1, "rank", 2, limit=4), new, Example(known, *digests))
    assert again.captured == (6 if spared else 4)
    assert len(world.outlined) == (6 if spared else 6 + 4)
    if spared:
        assert again.ranked == found.ranked


def test_what_is_looked_at_does_not_depend_on_the_budget(tmp_path: Path) -> None:
    """A design is ranked once: a search that gets more budget goes on with what it found."""
    small = Budget(candidates=16, patience=1000)
    with open_run(tmp_path / "r", small) as run:
        run_graph(context_of(run, World(), small), SearchSettings())
        jobs = [run.recall(f"{CHOICE}{number}", Job) for number in range(40)]
    limits = {job.limit for job in jobs if job is not None and job.kind == "rank"}
    assert limits == {RANK_LIMIT}


def test_rewrites_are_spared_in_a_search(tmp_path: Path) -> None:
    with open_run(tmp_path / "r", BUDGET) as run:
        world = World()
        run_graph(context_of(run, world, BUDGET, team=REWRITING), SearchSettings())
        sources = {design.id: design.source for design in run.designs()}
        made = {i.id: i for i in run.intents()}
        ranked: dict[int, JobResult] = {}
        number = 0
        while (job := run.recall(f"{CHOICE}{number}", Job)) is not None:
            result = run.recall(f"{RESULT}{number}", JobResult)
            if job.kind == "rank" and result is not None:
                ranked[job.node] = result
            number += 1
    spared = [id for id in ranked if sources[id] not in world.outlined]
    assert spared, "no rewrite was ranked"
    kin = {p for id in spared for p in made[id].parents} | {
        id for id, intent in made.items() if set(intent.parents) & set(spared)
    }
    assert kin & (set(ranked) - set(spared)), "what they were ranked like"
