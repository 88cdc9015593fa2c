"""The shared tools: bounded answers, whole texts by reference, a bounded number of evaluations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from llm_kernels import GOOD, MISALIGNED, WRONG_NUMBERS

from maxkernel.engineers.llm import TOOLS, Toolbox, team_for_run
from maxkernel.engineers.llm.calls import tool_evaluations
from maxkernel.engineers.llm.tools import ANSWER, EVALUATIONS, REPEATS
from maxkernel.knowledge import Library, open_library
from maxkernel.store import RunFile, RunHeader
from maxkernel.types import Budget, Candidate, Design, Plan


class Memory:
    """A run with one design."""

    def __init__(self, bench) -> None:
        self.kept = [Design(3, Plan("rowwise", "one pass", "fewer bytes"), GOOD, "plan")]
        self.judged = [(3, bench.judge.evaluate(bench.prepared, Candidate(GOOD)))]

    def designs(self):
        return self.kept

    def evaluations(self):
        return self.judged


@pytest.fixture(scope="module")
def library(bench) -> Iterator[Library]:
    opened = open_library(bench.settings)
    yield opened
    opened.close()


@pytest.fixture
def box(library, bench) -> Toolbox:
    return Toolbox(library, bench.judge, bench.prepared, Memory(bench), evaluations=3)


def test_documentation_is_found_and_read(box):
    found = box.search_docs("out of memory in vmem", 3)
    assert "guide/errors/ran-out-of-memory" in found and found.startswith("<data")
    text = box.read_doc("guide/errors/ran-out-of-memory-in-memory-space-vmem")
    assert "vmem_limit_bytes" in text
    assert "no document 'nonsense'" in box.read_doc("nonsense")
    assert "Nothing found" in box.search_docs("?!")


def test_the_judge_answers_by_tool(box):
    assert "does not fit its array" in box.compile_kernel(MISALIGNED)
    compiled = box.compile_kernel(GOOD, {"block_rows": 512})
    assert compiled.startswith("It compiles.") and "block_rows=512" in compiled
    assert "check passes" in box.check_numerics(GOOD, {"block_rows": 512})
    assert "of the time" in box.profile_kernel(GOOD, {"block_rows": 512})


def test_wrong_numbers_are_reported_with_their_size(box):
    text = box.check_numerics(WRONG_NUMBERS)
    assert "check fails" in text and "of what is allowed" in text


def test_evaluations_are_bounded_and_known_ones_are_free(box):
    for name in (256, 512):
        box.compile_kernel(GOOD, {"block_rows": name})
    box.check_numerics(GOOD, {"block_rows": 256})
    box.compile_kernel(MISALIGNED)
    assert "No evaluations are left" in box.compile_kernel(GOOD + "\n")
    assert "check passes" in box.check_numerics(GOOD, {"block_rows": 256})


def test_a_run_remembers_what_tools_had_judged(bench, tmp_path):
    header = RunHeader("r", bench.prepared.task, "v6e", "auto", Budget(), {}, 0.0)
    with RunFile.create(tmp_path / "run", header) as run:
        for _ in range(2):
            with team_for_run({}, run, bench.judge, bench.prepared, bench.settings) as llm:
                llm.toolbox.compile_kernel(MISALIGNED)
        assert tool_evaluations(run) == 2
        for n in range(EVALUATIONS - 2):
            run.event("tool evaluation", candidate=str(n))
        with team_for_run({}, run, bench.judge, bench.prepared, bench.settings) as llm:
            assert "No evaluations are left" in llm.toolbox.compile_kernel(GOOD)


def test_constants_are_tuned(box):
    text = box.tune_kernel(GOOD)
    assert "The best:" in text and "block_rows=" in text
    assert "no function `kernel`" in box.tune_kernel("x = 1")


def test_designs_are_shown(box):
    text = box.show_design(3)
    for part in ("one pass", "fewer bytes", "def kernel", "Accepted"):
        assert part in text
    assert "there are [3]" in box.show_design(9)


def test_long_answers_are_cut_and_kept_by_reference(box, monkeypatch):
    long = "\n".join(f"# note {n}" for n in range(2000))
    box._archive.kept.append(Design(4, Plan("a", "long", ""), GOOD + long, "plan"))
    (show,) = box.select("show_design")
    text = show(4)
    assert len(text) < ANSWER + 200 and "read_doc('text:1'" in text
    assert "# note 1999" in box.read_doc("text:1", 20_000)


def test_the_same_call_again_and_again_is_stopped(box):
    (search,) = box.select("search_docs")
    answers = [search(query="vmem") for _ in range(REPEATS + 1)]
    assert answers[0] == answers[1] and "made this call before" in answers[-1]
    (fresh,) = box.select("search_docs")
    assert fresh(query="vmem") == answers[0]


def test_without_a_judge_only_reading_is_offered(library):
    box = Toolbox(library)
    assert [tool.__name__ for tool in box.select(*TOOLS)] == ["search_docs", "read_doc"]
    assert "no judge" in box.compile_kernel(GOOD) and "no judge" in box.tune_kernel(GOOD)


def test_every_tool_is_described_for_models(box):
    for tool in box.select(*TOOLS):
        assert tool.__doc__ and "Args:" in tool.__doc__
