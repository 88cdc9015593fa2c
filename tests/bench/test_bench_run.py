"""The runner on real tasks: rows are kept, a stopped table goes on, kernels made elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from maxkernel import config, suites
from maxkernel.api import Session, open_session
from maxkernel.bench import Method, Settings, compare, load_result, run_bench, summarise
from maxkernel.bench.result import save_result
from maxkernel.bench.run import Quiet
from maxkernel.report import RunReport
from maxkernel.search import Silent
from maxkernel.store import list_runs

SETTINGS = Settings("jaxbench", "hardened", "v6e", "builtin", "auto", 1, 120.0)
JUDGING = Settings("jaxbench", "hardened", "v6e", "given kernels", "judge", 1, 120.0, "k")
NAMES = ["41k_Gemm_Add_ReLU", "37k_Matmul_Swish_Scaling"]
GEMM = "8p_GEMM"
ZEROS = (
    "import jax\nimport jax.numpy as jnp\nfrom jax.experimental import pallas as pl\n\n\n"
    "def kernel(*inputs):\n    return jnp.zeros(inputs[0].shape, inputs[0].dtype)\n"
)


class Stages(Quiet):
    """Remembers every stage of every task."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def started(self, task: str) -> "StagesOfTask":
        return StagesOfTask(self.seen)


class StagesOfTask(Silent):
    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def stage(self, name: str, design: int | None) -> None:
        self.seen.append(name)


class CtrlC(Quiet):
    """Interrupts the table when the first candidate has been judged."""

    def started(self, task: str) -> "CtrlC":
        return self

    def stage(self, name: str, design: int | None) -> None:
        pass

    def prepared(self, prepared: object) -> None:
        pass

    def evaluated(self, design: int, evaluation: object) -> None:
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> config.Settings:
    cache = str(tmp_path_factory.mktemp("cache"))
    return msgspec.structs.replace(config.load_settings(), cache_dir=cache)


@pytest.fixture(scope="module")
def session(settings: config.Settings) -> Iterator[Session]:
    with open_session("v6e", settings=settings) as opened:
        yield opened


def test_rows_are_kept(session: Session, tmp_path: Path) -> None:
    method = Method(JUDGING, kernels=dict.fromkeys(NAMES, ZEROS))
    first = run_bench(session, NAMES, method, tmp_path)
    assert [row.task for row in first.rows] == NAMES
    assert all(row.baseline is not None and row.code and row.made for row in first.rows)
    assert first.rows[0].published_xla_ms == pytest.approx(0.6292)
    assert first.rows[0].expert is None and not first.rows[0].expert_problem

    save_result(tmp_path, msgspec.structs.replace(first, rows=first.rows[:1]))
    second = run_bench(session, NAMES, method, tmp_path)
    assert second.rows[0] == first.rows[0], "finished rows are taken as they are"
    assert second.rows[1].made > first.rows[1].made
    assert {change.word for change in compare(first, second)} == {"same"}
    assert load_result(tmp_path).rows == second.rows

    fewer = run_bench(session, NAMES[1:], method, tmp_path)
    assert fewer.rows == second.rows[1:]
    assert len(load_result(tmp_path).rows) == 2, "rows that nobody asked for stay"


def test_kernels_made_elsewhere(session: Session, tmp_path: Path) -> None:
    method = Method(JUDGING, kernels={NAMES[0]: ZEROS})
    found = run_bench(session, NAMES, method, tmp_path)
    assert [row.outcome for row in found.rows] == ["refused", "none"]
    assert found.rows[0].message.startswith("rules/")
    assert "no kernel given" in found.rows[1].message


def test_the_expert_is_judged_once_and_is_the_bar(session: Session, tmp_path: Path) -> None:
    candidate = suites.expert("jaxbench", GEMM)
    assert candidate is not None
    method = Method(JUDGING, kernels={GEMM: candidate.source})
    first, again = Stages(), Stages()
    (row,) = run_bench(session, [GEMM], method, tmp_path / "a", progress=first).rows
    assert row.expert is not None and row.expert.provenance == "simulated"
    assert row.best == row.expert, "the same kernel on the same clock"
    assert row.published_pallas_ms == pytest.approx(5.4052)
    found = summarise([row])
    assert (found.experts, found.beats_expert, found.equals_expert) == (1, 0, 1)
    (same,) = run_bench(session, [GEMM], method, tmp_path / "b", progress=again).rows
    assert same.expert == row.expert
    assert any(stage.startswith("expert") for stage in first.seen)
    assert not any(stage.startswith("expert") for stage in again.seen)


def test_a_task_out_of_time_is_a_row(session: Session, tmp_path: Path) -> None:
    short = msgspec.structs.replace(SETTINGS, edition="published", task_seconds=0.5)
    (row,) = run_bench(session, NAMES[:1], Method(short), tmp_path).rows
    assert row.outcome == "timeout"
    assert row.message.startswith("out of time")
    assert summarise([row]).unfinished == 1
    given = msgspec.structs.replace(JUDGING, edition="published", task_seconds=300.0)
    method = Method(given, kernels={NAMES[0]: ZEROS})
    (tried,) = run_bench(session, NAMES[:1], method, tmp_path).rows
    assert tried.outcome == "refused", "a row without a result is tried again"
    assert tried.soundness == "sound"


def test_an_interrupted_search_goes_on(settings: config.Settings, tmp_path: Path) -> None:
    method, names = Method(SETTINGS), NAMES[:1]
    with open_session("v6e", settings=settings) as first, pytest.raises(KeyboardInterrupt):
        run_bench(first, names, method, tmp_path, progress=CtrlC())
    assert load_result(tmp_path).rows == ()
    (stopped,) = list_runs(tmp_path / "runs")
    assert (stopped.state, stopped.evaluations) == ("stopped", 1)
    with open_session("v6e", settings=settings) as second:
        (row,) = run_bench(second, names, method, tmp_path).rows
    assert (row.run, row.evaluations) == (stopped.run, 1)
    assert row.outcome in ("faster", "xla"), row
    report = tmp_path / "runs" / row.run / "bundle" / "report.json"
    assert msgspec.json.decode(report.read_bytes(), type=RunReport).run == row.run
