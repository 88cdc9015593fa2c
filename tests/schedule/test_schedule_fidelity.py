"""The fidelity benchmark: its rows, its fixed split, its statistics."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from benchmarks.fidelity.flops import operations
from benchmarks.fidelity.results import evaluate, load
from benchmarks.fidelity.rows import SUITES, Row
from benchmarks.fidelity.table import spearman, speedups

ROOT = Path(__file__).parents[2]
ROWS = [row for rows in SUITES.values() for row in rows()]


def test_every_row_is_unique_and_has_a_time() -> None:
    assert len({row.key for row in ROWS}) == len(ROWS) > 240
    assert all(0 < row.seconds < 1 for row in ROWS)
    assert {row.target for row in ROWS} == {"v5e", "v5p", "v6e", "v7x"}


def test_the_split_is_the_one_that_constants_were_chosen_on() -> None:
    known = sorted((row for row in ROWS if not row.other), key=lambda row: row.key)
    halves = "".join(f"{row.key} {row.split}\n" for row in known)
    assert hashlib.sha256(halves.encode()).hexdigest()[:16] == "45cef498c0b2dd63"
    added = {row.name: row.split for row in ROWS if row.other}
    assert added == {
        "4p.baseline": "test", "7p.baseline": "fit", "11p.baseline": "test", "42k.baseline": "test"
    }  # fmt: skip
    for target in ("v5e", "v5p", "v6e", "v7x"):
        mine = [row.split for row in ROWS if row.target == target]
        assert min(mine.count("fit"), mine.count("test")) >= 5


def test_configurations_of_one_problem_share_a_half() -> None:
    halves: dict[str, set[str]] = {}
    for row in ROWS:
        halves.setdefault(row.problem, set()).add(row.split)
    assert all(len(splits) == 1 for splits in halves.values())


def test_rows_that_the_constants_of_v7x_were_chosen_on_are_told() -> None:
    seen = [row for row in SUITES["tokamax"]() if row.seen]
    assert {row.target for row in seen} == {"v7x"}
    assert sorted(row.split for row in seen) == ["fit"] * 4 + ["test"] * 5


def test_operations_of_known_problems() -> None:
    def row(name: str, desc: str) -> Row:
        return Row("tokamax", name, "v6e", 1.0, "", {"desc": desc})

    array = "bf16[2,1024,8,128]"
    both = f"q={array} k={array} v={array}"
    full = 4.0 * 2 * 8 * 1024**2 * 128
    assert operations(row("flash_attention", f"{both} causal=False")) == full
    assert operations(row("flash_attention", f"{both} causal=True")) == full / 2
    grouped = "lhs=bf16[512,64] rhs=bf16[8,64,256] contract=[[1], [1]]"
    assert operations(row("ragged_dot", grouped)) == 2.0 * 512 * 64 * 256


def test_rank_correlation() -> None:
    assert spearman((1.0, 2.0, 3.0), (5.0, 6.0, 9.0)) == 1.0
    assert spearman((1.0, 2.0, 3.0), (9.0, 6.0, 5.0)) == -1.0
    assert spearman((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 4.0, 3.0)) == pytest.approx(0.8)


def table(cache: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The documented command, from the repository's root."""
    command = [sys.executable, "-m", "benchmarks.fidelity.table", str(cache), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)


def packed(path: Path, *dumps: tuple[str, int]) -> None:
    """Kept dumps of the tests with the facts of a compiled row, as a row's archive: each dump and
    how often its program runs. A single program lies in the archive itself."""
    facts = {"operands": {}, "argument_bytes": 8, "output_bytes": 8, "xla_cycles": 0, "kernels": 1}
    parts = {"parts": [{"times": times, **facts} for _, times in dumps]}
    data = json.dumps(facts if len(dumps) == 1 else parts).encode()
    with tarfile.open(path, "w:gz") as new:
        for index, (dump, _) in enumerate(dumps):
            source = Path(__file__).parent / "data" / f"{dump}.tar.gz"
            with tarfile.open(source) as old:
                for member in old:
                    content = old.extractfile(member)
                    if len(dumps) > 1:
                        member.name = f"part{index}/{member.name}"
                    new.addfile(member, content)
        named = tarfile.TarInfo("facts.json")
        named.size = len(data)
        new.addfile(named, io.BytesIO(data))


def test_the_documented_command_prints_the_rows_of_a_cache(tmp_path: Path) -> None:
    row = next(row for row in SUITES["sweep"]() if row.split == "fit")
    packed(tmp_path / f"{row.key}.tar.gz", ("v5e-matmul", 1))
    shown = table(tmp_path, "--rows", "--suite", "sweep")
    assert shown.returncode == 0, shown.stderr
    first, *lines = shown.stdout.splitlines()
    assert first.startswith(f"v5e sweep fit  {row.seconds * 1e3:9.3f} ms") and row.name in first
    [clock] = [line.split() for line in lines if line.startswith("sweep v5e fit clock")]
    assert clock[4] == "1"


def test_a_row_without_jit_is_the_sum_of_its_programs(tmp_path: Path) -> None:
    row = SUITES["sweep"]()[0]
    once, often = tmp_path / "once.tar.gz", tmp_path / "often.tar.gz"
    packed(once, ("v5e-matmul", 1))
    packed(often, ("v5e-matmul", 3), ("v5e-matmul", 2))
    single, several = evaluate(row, once), evaluate(row, often)
    assert several.seconds == pytest.approx(5 * single.seconds)
    assert several.roofline >= single.roofline
    assert (several.stall, several.error) == pytest.approx((single.stall, single.error))
    assert several.notes.startswith("5 programs, 2 different")


OP_BY_OP = """
import jax, jax.numpy as jnp, numpy as np
from benchmarks.fidelity.eager import dispatches

def halves(x, sizes):
    start, out = 0, []
    for i in range(2):
        size = sizes[i]
        out.append(jnp.exp(jax.lax.stop_gradient(x[start : start + size])))
        start += size
    return jnp.concatenate(out)

for d in dispatches(halves, [jax.ShapeDtypeStruct((8, 128), jnp.bfloat16), np.array([4, 4])]):
    compiled = jax.jit(d.function).lower(*d.shapes).compile()
    print(d.name, [s.shape for s in d.shapes], d.times, len(compiled.as_text()) > 0)
"""


def test_a_run_without_jit_is_told_by_its_programs() -> None:
    command = [sys.executable, "-c", OP_BY_OP]
    cpu = {**os.environ, "JAX_PLATFORMS": "cpu"}
    shown = subprocess.run(command, cwd=ROOT, env=cpu, capture_output=True, text=True, timeout=100)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert "exp [(4, 128)] 2 True" in lines
    assert "concatenate [(4, 128), (4, 128)] 1 True" in lines
    assert "dynamic_slice [(2,), ()] 2 True" in lines  # what a static slice runs
    assert not any("stop_gradient" in line for line in lines)


def test_each_speedup_is_told_or_why_it_is_not(tmp_path: Path) -> None:
    rows = {row.name: row for row in SUITES["jaxbench"]()}
    baseline, kernel = rows["4p.baseline"], rows["4p.optimized"]
    for row in (baseline, kernel):
        packed(tmp_path / f"{row.key}.tar.gz", ("v6e-matmul", 1))
    packed(tmp_path / f"{rows['11p.baseline'].key}.tar.gz", ("v6e-matmul", 9**9), ("v6e-matmul", 1))
    (tmp_path / f"{rows['3p.optimized'].key}.failed").write_text("3p\nValueError: no such jax\n")
    results, absent = load(tmp_path, ["jaxbench"])
    assert [r.row.name for r in results] == ["4p.baseline", "4p.optimized"]
    told = speedups(results, absent)
    [known] = [line for line in told if "measured" in line and "not known" not in line]
    measured = baseline.seconds / kernel.seconds
    assert (
        known.startswith(f"speedup 4p: 1.00, measured {measured:.2f}") and baseline.other in known
    )
    [mla] = [line for line in told if line.startswith("speedup 3p")]
    assert mla.endswith("3p.baseline: not in the cache; 3p.optimized: ValueError: no such jax")
    [grouped] = [line for line in told if line.startswith("speedup 11p")]
    assert "387420490 programs move bytes" in grouped and "published 3.0 ms" in grouped
    assert sum("not known" in line for line in told) == 7


def test_the_sweep_is_compared_with_its_host_dispatch_too(tmp_path: Path) -> None:
    rows = {row.name: row for row in SUITES["sweep"]()}
    for name, runs in (("8192.128/128/128", 3), ("8192.512/1024/1024", 1)):
        packed(tmp_path / f"{rows[name].key}.tar.gz", ("v5e-matmul", runs), ("v5e-matmul", runs))
    shown = table(tmp_path, "--suite", "sweep").stdout
    assert "sweep clock and 0.11 ms of dispatch           2 " in shown
    assert "sweep 8192: blocks of 128 against 512/1024/1024: 3.0, with dispatch" in shown
    assert "measured 15.1" in shown and "no time: 7 rows of sweep v5e fit" in shown


def test_the_documented_command_says_that_a_cache_is_empty(tmp_path: Path) -> None:
    shown = table(tmp_path)
    assert shown.returncode == 1 and str(tmp_path) in shown.stderr
    if shutil.which("make"):
        made = subprocess.run(["make", "-n", "fidelity", f"CACHE={tmp_path}"], cwd=ROOT,
                              capture_output=True, text=True, timeout=100)  # fmt: skip
        assert f"-m benchmarks.fidelity.table {tmp_path}" in made.stdout
