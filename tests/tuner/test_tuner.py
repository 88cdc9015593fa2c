"""The tuner on a synthetic landscape: what it compiles, what it prunes, when it stops."""

import itertools

from maxkernel.targets import get_target
from maxkernel.tuner import assignments, tune
from maxkernel.tuner.space import neighbours
from maxkernel.types import (
    Artifact,
    ArtifactFacts,
    Candidate,
    Evaluation,
    Failure,
    Graph,
    PallasCall,
    TaskInfo,
    Time,
    Tolerance,
)

SPACE = {"m": (128, 256, 512, 1024), "n": (128, 256, 512), "k": (64,)}
INFO = TaskInfo(
    "t", (), (), (), (), (), {}, {}, Tolerance(0, 0), Graph((), (), (), ()), 0.0, 1e9, b""
)
V6E = get_target("v6e")


class Landscape:
    """Time falls towards (512, 256); m = 1024 does not fit; n = 128 is the same as n = 256."""

    def __init__(self) -> None:
        self.compiled: list[Candidate] = []

    def capture(self, candidates: list[Candidate]) -> list[Artifact | Failure]:
        return [self._capture(c) for c in candidates]

    def _capture(self, candidate: Candidate) -> Artifact | Failure:
        m, n = int(candidate.tunables["m"]), int(candidate.tunables["n"])
        block = V6E.vmem_bytes if m == 1024 else 1 << 20
        facts = ArtifactFacts(pallas_calls=(PallasCall("k", (64,), block_bytes=block),))
        return Artifact(f"{m}/{max(n, 256)}".encode(), b"", facts)

    def evaluate(self, candidates: list[Candidate]) -> list[Evaluation]:
        self.compiled += candidates
        return [self._evaluate(c) for c in candidates]

    def _evaluate(self, candidate: Candidate) -> Evaluation:
        m, n = int(candidate.tunables["m"]), int(candidate.tunables["n"])
        seconds = 1e-3 * (1 + abs(m - 512) / 512 + abs(n - 256) / 256)
        return Evaluation(
            candidate,
            "t",
            "v6e",
            "none",
            artifact=f"{m}/{max(n, 256)}",
            time=Time(seconds, "simulated"),
        )


def test_assignments_start_at_the_default_and_cover_the_space() -> None:
    found = assignments(SPACE)
    assert found[0] == {"m": 128, "n": 128, "k": 64}
    assert len(found) == len({tuple(a.items()) for a in found}) == 12
    assert assignments({}) == [{}]


def test_neighbours_differ_in_one_place() -> None:
    at = {"m": 256, "n": 512, "k": 64}
    found = neighbours(SPACE, at)
    assert {(a["m"], a["n"]) for a in found} == {(128, 512), (512, 512), (256, 256)}


def test_tuning_finds_the_best_and_compiles_nothing_hopeless() -> None:
    landscape = Landscape()
    result = tune("source", SPACE, INFO, V6E, 8, landscape.capture, landscape.evaluate)
    assert result.best is not None
    assert result.best.candidate.tunables == {"m": 512, "n": 256, "k": 64}
    compiled = [(c.tunables["m"], c.tunables["n"]) for c in landscape.compiled]
    assert len(compiled) == len(set(compiled)) <= 8
    assert result.pruned > 0


def test_the_budget_holds_for_any_size() -> None:
    for budget, known in itertools.product((0, 1, 2, 5, 40), (0, 1)):
        landscape = Landscape()
        before = landscape.evaluate([Candidate("source")] * 0) if not known else []
        if known:
            before = [landscape._evaluate(Candidate("source", {"m": 128, "n": 128, "k": 64}))]
        tune(
            "source", SPACE, INFO, V6E, budget, landscape.capture, landscape.evaluate, tuple(before)
        )
        assert len(landscape.compiled) <= budget
