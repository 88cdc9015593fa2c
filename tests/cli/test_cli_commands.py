"""The command line end to end: real compiler, real sandbox, real run files."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any


def test_optimize_hands_back_a_bundle_that_stands_alone(cli: Any) -> None:
    status, report = cli.json("optimize", "norm.py", "--budget-candidates", "4")
    assert status == report["exit_status"] == 0, report
    assert report["outcome"] == "faster"
    assert report["speedup"] > 1.05
    assert report["sandbox"] == "bubblewrap"
    assert {report["baseline"]["provenance"], report["best"]["provenance"]} == {"simulated"}
    assert report["bound"]["provenance"] == "bound"
    assert 1 <= len(report["candidates"]) <= 4
    bundle = cli.folder / report["bundle"]
    files = {path.name for path in bundle.iterdir()}
    assert files == {"kernel.py", "test_kernel.py", "report.md", "report.json"}
    assert "maxkernel" not in (bundle / "kernel.py").read_text()
    assert json.loads((bundle / "report.json").read_text())["run"] == report["run"]
    own = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_kernel.py"],
        cwd=bundle,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in own.stdout, own.stdout + own.stderr
    _the_run_can_be_looked_at(cli, report)


def _the_run_can_be_looked_at(cli: Any, report: dict[str, Any]) -> None:
    _, listed = cli.json("runs")
    assert [(r["run"], r["state"]) for r in listed["runs"]] == [(report["run"], "finished")]
    status, out, _ = cli.run("show", "last")
    assert status == 0
    assert "Pallas kernel beats XLA" in out
    assert cli.run("show", "last", "--source", "1")[1].count("def kernel(") == 1
    events = [json.loads(line) for line in cli.run("show", "last", "--events")[1].splitlines()]
    assert [events[0]["kind"], events[-1]["kind"]] == ["opened", "finished"]
    status, again = cli.json("resume", report["run"][:8])
    assert status == 0
    assert again["candidates"] == report["candidates"], "a finished run is shown, not run again"


def test_judge_accepts_and_says_what_it_saw(cli: Any) -> None:
    status, verdict = cli.json("judge", "norm.py", "kernel.py", "--tunable", "block_rows=512")
    assert status == verdict["exit_status"] == 0
    evaluation = verdict["evaluation"]
    assert evaluation["failure"] is None
    assert evaluation["facts"]["pallas_calls"][0]["grid"] == [32]
    assert evaluation["numerics"]["oracle"] == "float64"
    assert verdict["speedup"] > 1
    status, out, _ = cli.run("judge", "norm.py", "kernel.py")
    assert status == 0
    assert "accepted, faster than XLA" in out


def test_judge_refuses_wrong_numbers(cli: Any, edited_kernel: Callable[[str, str], str]) -> None:
    wrong = edited_kernel("jnp.mean(x * x", "0.98 * jnp.mean(x * x")
    status, verdict = cli.json("judge", "norm.py", wrong)
    assert status == verdict["exit_status"] == 1
    assert verdict["speedup"] is None
    assert verdict["evaluation"]["failure"]["kind"] == "mismatch"
    status, out, err = cli.run("judge", "norm.py", wrong)
    assert (status, "Traceback" in out + err) == (1, False)
    assert "try:" in out


def test_judge_accepts_a_slow_kernel_without_a_claim(
    cli: Any, edited_kernel: Callable[[str, str], str]
) -> None:
    slow = edited_kernel('"block_rows": (256, 512)', '"block_rows": (8, 512)')
    status, verdict = cli.json("judge", "norm.py", slow)
    assert status == 0
    assert verdict["faster"] is False


def test_lint_finds_the_holes_of_a_weak_task(cli: Any) -> None:
    status, found = cli.json("lint", "norm.py")
    assert status == 0
    tried = {s["name"]: s["passes"] for s in found["shortcuts"]}
    assert len(tried) >= 9
    assert not any(tried.values())
    task = (cli.folder / "norm.py").read_text()
    cli.write("weak.py", task.replace("1 + 0.1 * jax.random.normal(k2, (1024,))", "jnp.ones(1024)"))
    status, found = cli.json("lint", "weak.py")
    assert status == 1
    assert list(found["holes"]) == ["ignores input 1"]
    status, refused = cli.json("optimize", "weak.py")
    assert (status, "ignores input 1" in refused["error"]) == (2, True)
    assert not list(cli.folder.glob("maxkernel-runs/*")), "no run file for a task that is refused"
    status, report = cli.json(
        "optimize", "weak.py", "--allow-weak-task", "--budget-candidates", "1"
    )
    assert any("WEAK TASK" in note for note in report["notes"])


def test_another_target_and_the_other_formats(cli: Any) -> None:
    jaxbench = """
import jax, jax.numpy as jnp
CONFIG = {"name": "tiny"}
def create_inputs(dtype=jnp.bfloat16):
    key = jax.random.key(42)
    return jax.random.normal(key, (512, 1024), dtype), jnp.ones((1024,), jnp.float32)
def workload(x, scale):
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + 1e-5)
    return (y * scale).astype(x.dtype)
"""
    cli.write("baseline.py", jaxbench)
    status, verdict = cli.json(
        "judge", "baseline.py", "kernel.py", "--target", "v5e", "--allow-weak-task"
    )
    assert (status, verdict["evaluation"]["target"]) == (0, "v5e"), verdict
    google = cli.folder / "google"
    google.mkdir()
    (google / "reference.py").write_text(
        jaxbench.replace("workload", "computation").split("CONFIG")[0]
        + jaxbench[jaxbench.index("def workload") :].replace("workload", "computation")
    )
    (google / "kernel_task.yaml").write_text(
        "task_id: tiny\ninput_gen_code: |-\n"
        "  def get_inputs(dtype=jnp.bfloat16):\n"
        "    key = jax.random.key(42)\n"
        "    x = jax.random.normal(key, (512, 1024), dtype)\n"
        "    return [x, jnp.ones((1024,), jnp.float32)], []\n"
    )
    status, verdict = cli.json("judge", "google", "kernel.py", "--allow-weak-task")
    assert status == 0, verdict


def test_doctor(cli: Any) -> None:
    status, found = cli.json("doctor")
    assert status == 0
    assert all(f["ok"] for f in found["findings"])


def test_python_api(cli: Any) -> None:
    code = (
        "import sys, maxkernel\n"
        "verdict = maxkernel.judge('norm.py', 'kernel.py', target='v6e')\n"
        "assert verdict.evaluation.accepted and verdict.faster\n"
        "assert maxkernel.load_task('norm.py').name == 'norm'\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('jax', 'jaxlib', 'libtpu')]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cli.folder,
        env=cli.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
