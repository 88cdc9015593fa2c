"""The fidelity benchmark: its rows, its fixed split, its statistics."""

import hashlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "fidelity"))

from flops import operations
from rows import SUITES, Row
from table import spearman

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
