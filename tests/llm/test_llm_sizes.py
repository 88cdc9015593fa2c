"""Prompt sizes stay under the limits that the benchmark states."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from llm_kernels import GOOD

from maxkernel.engineers.llm import ROLES
from maxkernel.knowledge import SHEET_LIMIT, api_sheet

FILE = Path(__file__).parents[2] / "benchmarks" / "prompts.py"


@pytest.fixture(scope="module")
def prompts():
    spec = importlib.util.spec_from_file_location("prompts_benchmark", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("outcomes", [0, 1000])
def test_every_roles_prompt_is_within_its_limits(prompts, bench, outcomes):
    sizes = prompts.measure(bench.judge, bench.prepared, GOOD, bench.settings, outcomes)
    assert {size.role for size in sizes} == set(ROLES)
    for size in sizes:
        assert size.instructions <= prompts.INSTRUCTIONS_LIMIT, size
        assert size.question <= prompts.QUESTION_LIMIT, size


def test_a_long_kernel_is_clipped(prompts, bench):
    long = GOOD + "".join(f"# a remark that goes on, number {n}\n" for n in range(4000))
    sizes = prompts.measure(bench.judge, bench.prepared, long, bench.settings, 50)
    assert max(size.question for size in sizes) > 15_000
    assert all(size.question <= prompts.QUESTION_LIMIT for size in sizes)


def test_the_sheet_fits_its_share(prompts):
    assert len(api_sheet()) <= SHEET_LIMIT < prompts.INSTRUCTIONS_LIMIT
