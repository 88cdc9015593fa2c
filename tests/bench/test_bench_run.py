"""The runner on real tasks: rows are kept, a stopped table goes on, kernels made elsewhere."""

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from maxkernel.api import Session, open_session
from maxkernel.bench import Settings, compare, load_result, run_bench
from maxkernel.bench.result import save_result
from maxkernel.config import load_settings
from maxkernel.report import RunReport

SETTINGS = Settings("jaxbench", "hardened", "v6e", "builtin", "auto", 1, 120.0)
NAMES = ["12p_RMSNorm", "41k_Gemm_Add_ReLU", "37k_Matmul_Swish_Scaling"]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    cache = str(tmp_path_factory.mktemp("cache"))
    settings = msgspec.structs.replace(load_settings(), cache_dir=cache)
    with open_session("v6e", settings=settings) as opened:
        yield opened


def test_rows_are_kept_and_a_stopped_table_goes_on(session: Session, tmp_path: Path) -> None:
    first = run_bench(session, NAMES, SETTINGS, tmp_path)
    assert [row.task for row in first.rows] == NAMES
    norm = first.rows[0]
    assert norm.outcome == "faster", norm
    assert norm.speedup is not None and norm.speedup > 1.2
    assert norm.published_xla_ms == pytest.approx(1.1385)
    assert all(row.baseline is not None for row in first.rows)
    report = tmp_path / "runs" / norm.run / "bundle" / "report.json"
    assert msgspec.json.decode(report.read_bytes(), type=RunReport).run == norm.run

    partial = msgspec.structs.replace(first, rows=first.rows[:2])
    save_result(tmp_path, partial)
    started = time.monotonic()
    second = run_bench(session, NAMES, SETTINGS, tmp_path)
    assert second.rows[:2] == first.rows[:2], "finished rows are taken as they are"
    assert second.rows[2].run != first.rows[2].run
    assert time.monotonic() - started < 120
    assert {change.word for change in compare(first, second)} == {"same"}
    assert load_result(tmp_path).rows == second.rows


def test_kernels_made_elsewhere(session: Session, tmp_path: Path) -> None:
    given = msgspec.structs.replace(SETTINGS, team="given kernels", mode="judge", kernels="k")
    source = (
        "import jax\nimport jax.numpy as jnp\nfrom jax.experimental import pallas as pl\n\n\n"
        "def kernel(*inputs):\n    return jnp.zeros(inputs[0].shape, inputs[0].dtype)\n"
    )
    found = run_bench(session, NAMES[:2], given, tmp_path, kernels={NAMES[0]: source})
    assert [row.outcome for row in found.rows] == ["refused", "none"]
    assert "no_pallas" in found.rows[0].message
    assert "no kernel given" in found.rows[1].message
