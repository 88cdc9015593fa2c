"""Emitted source is what a careful person would leave behind: `ruff` has nothing to say."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from kernels import sources
from test_emitted_source_compiles import CASES
from test_whole_row_epilogues import gemm_cross_entropy, gemm_outer_sum, specs


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("emitted")
    (folder / "ruff.toml").write_text('[lint]\nselect = ["E", "F", "W", "I", "B", "UP", "RET"]\n')
    more = [
        (gemm_cross_entropy, specs(130, 640, 72, ((130,), "int32"))),
        (gemm_outer_sum, specs(40, 640, 72, ((50,), "float32"))),
    ]
    for number, (reference, given) in enumerate([*CASES, *more]):
        for place, source in enumerate(sources(reference, *given)):
            (folder / f"kernel_{number}_{place}.py").write_text(source)
    return folder


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]])
def test_ruff_agrees(written, command):
    run = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--no-cache", str(written)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_sources_stand_alone(written):
    for path in sorted(written.glob("kernel_*.py")):
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree)
        imported = {
            (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        assert imported <= {"jax", "functools", "math"}
