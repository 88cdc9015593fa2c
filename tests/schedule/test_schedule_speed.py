"""The table of what simulating costs: kept row by row, and summed up in one line."""

import subprocess
import sys
from pathlib import Path

from benchmarks.fidelity.speed import Book, Row, closing, sources

ROOT = Path(__file__).parents[2]
FAST = Row("a", sources(), "jax 1", 3.0, 0.0, 0.5, "00")
SLOW = Row("b", sources(), "jax 1", 9.0, 0.1, 2.25, "01")
DEAR = Row("c", sources(), "jax 1", 0.5, 0.0, 0.75, "02")
LOST = Row("d", sources(), failure="killed")


def test_a_row_is_kept_and_a_failure_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "rows.jsonl"
    book = Book(path)
    for row in (FAST, LOST, Row("e", "other sources", "jax 1", 1.0, 0.0, 0.1)):
        book.add(row)
    with path.open("ab") as file:
        file.write(b'\n{"task": "f", "sour')
    again = Book(path)
    assert [again.has(name) for name in "adef"] == [True, False, False, False]
    again.add(Row("d", sources(), "jax 1", 2.0, 0.0, 0.2))
    assert Book(path).has("d") and Book(path).rows["a"] == FAST


def test_the_closing_line_counts_what_is_above_the_limit() -> None:
    assert closing([FAST, SLOW, DEAR, LOST]) == (
        "3 programs simulated; above 2 s: 1 (b); most 2.25 s (b); longer than compiling: c; "
        "failed: d"
    )
    assert closing([]) == (
        "0 programs simulated; above 2 s: 0; longer than compiling: none; failed: none"
    )


def test_a_second_call_prints_the_same_row_without_compiling(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.fidelity.speed", "11p"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    first, second = (
        subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        for _ in range(2)
    )
    assert "| 11p_Megablox_GMM |" in first.stdout and "1 programs simulated" in first.stdout
    assert "1 of 1" in first.stderr and "1 of 1" not in second.stderr
    assert second.stdout == first.stdout
