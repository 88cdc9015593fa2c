"""The fidelity benchmark: its rows, its fixed split, its statistics."""

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from benchmarks.fidelity.flops import operations
from benchmarks.fidelity.rows import SUITES, Row
from benchmarks.fidelity.table import spearman

ROOT = Path(__file__).parents[2]
ROWS = [row for rows in SUITES.values() for row in rows()]


def test_every_row_is_unique_and_has_a_time() -> None:
    assert len({row.key for row in ROWS}) == len(ROWS) > 240
    assert all(0 < row.seconds < 1 for row in ROWS)
    assert {row.target for row in ROWS} == {"v5e", "v5p", "v6e", "v7x"}


def test_the_split_is_the_one_that_constants_were_chosen_on() -> None:
    halves = "".join(f"{row.key} {row.split}\n" for row in sorted(ROWS, key=lambda row: row.key))
    assert hashlib.sha256(halves.encode()).hexdigest()[:16] == "45cef498c0b2dd63"
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


def packed(path: Path, dump: str) -> None:
    """A kept dump of the tests with the facts of a compiled row, as a row's archive."""
    facts = {"operands": {}, "argument_bytes": 8, "output_bytes": 8, "xla_cycles": 0, "kernels": 1}
    data = json.dumps(facts).encode()
    source = Path(__file__).parent / "data" / f"{dump}.tar.gz"
    with tarfile.open(source) as old, tarfile.open(path, "w:gz") as new:
        for member in old:
            new.addfile(member, old.extractfile(member))
        named = tarfile.TarInfo("facts.json")
        named.size = len(data)
        new.addfile(named, io.BytesIO(data))


def test_the_documented_command_prints_the_rows_of_a_cache(tmp_path: Path) -> None:
    row = next(row for row in SUITES["sweep"]() if row.split == "fit")
    packed(tmp_path / f"{row.key}.tar.gz", "v5e-matmul")
    shown = table(tmp_path, "--rows", "--suite", "sweep")
    assert shown.returncode == 0, shown.stderr
    first, *lines = shown.stdout.splitlines()
    assert first.startswith(f"v5e sweep fit  {row.seconds * 1e3:9.3f} ms") and row.name in first
    [clock] = [line.split() for line in lines if line.startswith("sweep v5e fit clock")]
    assert clock[4] == "1"


def test_the_documented_command_says_that_a_cache_is_empty(tmp_path: Path) -> None:
    shown = table(tmp_path)
    assert shown.returncode == 1 and str(tmp_path) in shown.stderr
    if shutil.which("make"):
        made = subprocess.run(["make", "-n", "fidelity", f"CACHE={tmp_path}"], cwd=ROOT,
                              capture_output=True, text=True, timeout=100)  # fmt: skip
        assert f"-m benchmarks.fidelity.table {tmp_path}" in made.stdout
