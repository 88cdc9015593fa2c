"""The command's options become settings, and its progress says which task is where."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from maxkernel import config
from maxkernel.bench import Method, Row
from maxkernel.bench.pace import Pace
from maxkernel.cli.bench_progress import BenchLines
from maxkernel.cli.bench_run import Limits, Search, method_of, shared_limits
from maxkernel.cli.models import Limits as ModelLimits
from maxkernel.errors import UsageError
from maxkernel.types import Candidate, Evaluation, Time

LIMITS = Limits(4, 60.0, 300.0, 3, ModelLimits())
NAMES = ["8p_GEMM", "12p_RMSNorm"]


def method(
    team: tuple[str, ...] = (),
    mode: str = "auto",
    policy: str | None = None,
    kernels: str = "",
    limits: Limits = LIMITS,
) -> Method:
    search = Search(list(team), mode, policy, 7, kernels)
    return method_of("jaxbench", "hardened", "v6e", search, limits, NAMES)


def test_builtin_is_a_team_without_models() -> None:
    for team in ((), ("builtin",)):
        made = method(team)
        assert made.settings.team == "builtin"
        assert made.models is not None and not made.models.wanted
        assert made.search is None


def test_a_model_fills_the_roles_within_its_limits() -> None:
    limits = Limits(4, 60.0, 300.0, 3, ModelLimits(tokens=1000, requests=9))
    made = method(("cli:cat",), limits=limits)
    assert made.models is not None
    assert made.models.by_role == {"default": ("cli:cat",)}
    assert (made.models.budget.max_tokens, made.models.budget.max_requests) == (1000, 9)
    other = Limits(4, 60.0, 300.0, 3, ModelLimits(tokens=2000, requests=9))
    assert made.settings.digest != method(("cli:cat",), limits=other).settings.digest
    assert made.settings.digest != method().settings.digest


def test_a_team_is_builtin_or_models() -> None:
    with pytest.raises(UsageError, match="not both"):
        method(("builtin", "cli:cat"))


def test_limits_for_models_need_one() -> None:
    with pytest.raises(UsageError, match="max-cost"):
        method(limits=Limits(4, 60.0, 300.0, 3, ModelLimits(cost=2.0)))


def test_graph_mode_has_a_policy_and_a_seed() -> None:
    made = method(mode="graph", policy="beam")
    assert made.search is not None
    assert (made.settings.mode, made.settings.policy, made.settings.seed) == ("graph", "beam", 7)
    with pytest.raises(UsageError, match="unknown mode 'pair'"):
        method(mode="pair")


def test_kernels_are_judged_and_named_after_tasks(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="named after a task") as caught:
        method(kernels=str(tmp_path))
    assert "8p_GEMM.py" in caught.value.advice
    (tmp_path / "8p_GEMM.py").write_text("def kernel(a, b): ...\n")
    (tmp_path / "README.py").write_text("")
    made = method(kernels=str(tmp_path))
    assert made.kernels == {"8p_GEMM": "def kernel(a, b): ...\n"}
    assert (made.settings.team, made.settings.mode) == ("given kernels", "judge")
    with pytest.raises(UsageError, match="searches nothing"):
        method(mode="graph", kernels=str(tmp_path))


def test_tasks_that_share_the_machine_get_longer() -> None:
    alone = config.Settings()
    shared = shared_limits(alone, 2)
    assert shared.compile_seconds == 2 * alone.compile_seconds
    assert shared.check_seconds == 2 * alone.check_seconds
    assert shared_limits(alone, 1) == alone


def test_progress_says_which_task_is_where_and_what_is_left() -> None:
    out = io.StringIO()
    lines = BenchLines(3, quiet=False, console=Console(file=out, width=200))
    pace = Pace({}, {"a": 60.0, "b": 60.0}, 2)
    lines.begins([Row("kept", "d", "faster")], pace)
    watcher = lines.started("a")
    pace.started("a")
    watcher.stage("baseline", None)
    assert "a: baseline, 0:00" in lines.status().plain
    watcher.stage("compile", 1)
    watcher.evaluated(1, Evaluation(Candidate("x"), "t", "v6e", "none"))
    watcher.stage("check", 2)
    assert "1/3 tasks, 1 faster | a: check, 1 judged, 0 accepted" in lines.status().plain
    assert "about 1:00 left" in lines.status().plain
    pace.finished("a")
    took = Time(1e-3, "simulated")
    lines.finished(Row("a", "d", "timeout", took, message="out of time: slow", seconds=61), 1)
    said = out.getvalue()
    assert "1 rows are kept from before; 2 tasks to run" in said
    assert "[2/3] a: out of time - (61 s, 0 evaluations): out of time: slow" in said
    assert "2/3 tasks, 1 faster" in lines.status().plain
