"""Lint verdicts: hardened tasks cannot be passed without their work; published holes are listed.

A sample of cheap tasks; `python -m benchmarks.suites.lint_sweep` does the rest.
"""

from collections.abc import Iterator

import pytest

from maxkernel import suites
from maxkernel.config import load_settings
from maxkernel.executor import Executor, open_executor
from maxkernel.types.messages import LintReply, LintRequest

SAMPLE = ["6p", "8p", "22k", "23k"]
SEEDS = (1, 2)
"""As in the sweep: a hole is one that is found on each."""


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    opened = open_executor(load_settings())
    yield opened
    opened.close()


def holes(executor: Executor, name: str, edition: suites.Edition, seed: int) -> list[str]:
    tolerance = suites.tolerance("jaxbench", name, edition)
    request = LintRequest(suites.load("jaxbench", name, edition), tolerance, seed)
    reply = executor.submit(request).result()
    assert isinstance(reply, LintReply), reply
    return [hole.name for hole in reply.result.holes]


@pytest.mark.parametrize("name", SAMPLE)
def test_nothing_passes_a_hardened_task(executor: Executor, name: str) -> None:
    assert holes(executor, name, "hardened", SEEDS[0]) == []


@pytest.mark.parametrize("name", SAMPLE)
def test_published_holes_are_those_listed(executor: Executor, name: str) -> None:
    listed = suites.entry("jaxbench", name).holes.get("published", ())
    first, second = (holes(executor, name, "published", seed) for seed in SEEDS)
    assert tuple(hole for hole in first if hole in second) == listed


def test_hardened_tasks_have_no_holes_listed() -> None:
    for suite in ("jaxbench", "models"):
        for name in suites.names(suite):
            assert "hardened" not in suites.entry(suite, name).holes
    listed = [n for n in suites.names("jaxbench") if suites.entry("jaxbench", n).holes]
    assert len(listed) > 10
