"""One compile here and now: the dump flags work, and the clock agrees with a published time."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from maxkernel.schedule import simulate
from maxkernel.targets import TARGETS

SCRIPT = Path(__file__).parent / "dump_programs.py"


def test_a_published_gemm_comes_out_within_one_percent(tmp_path: Path) -> None:
    """JaxBench 41k (matmul, bias, ReLU): 0.6292 ms on a v6e chip; x is prefetched to VMEM."""
    subprocess.run(
        [sys.executable, SCRIPT, tmp_path, "v6e", "gemm"],
        check=True,
        timeout=200,
        capture_output=True,
    )
    start = time.perf_counter()
    program = simulate(tmp_path / "v6e-gemm", TARGETS["v6e"])
    assert time.perf_counter() - start < 2
    assert program.seconds == pytest.approx(0.6292e-3, rel=0.01)
    assert program.assumptions == () and program.unknown == {}
