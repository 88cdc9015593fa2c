"""Tables on hand-made rows: what they add up to, what changed, how they print."""

from pathlib import Path

import msgspec
import pytest

from maxkernel.bench import BenchResult, Row, Settings, compare, load_result, summarise
from maxkernel.bench.render import render_html, render_markdown
from maxkernel.bench.result import FORMAT, save_result
from maxkernel.errors import UsageError
from maxkernel.types import Time

SETTINGS = Settings("jaxbench", "hardened", "v6e", "builtin", "auto", 8, 60.0)


def row(task: str, best_us: float | None, outcome: str = "faster", digest: str = "d") -> Row:
    best = Time(best_us * 1e-6, "simulated", 0.03) if best_us else None
    speedup = 100 / best_us if best_us else None
    return Row(task, digest, outcome, Time(1e-4, "simulated", 0.02), best, speedup)


def table(*rows: Row, jax: str = "1") -> BenchResult:
    return BenchResult(FORMAT, SETTINGS, {"jax": jax}, 0.0, rows, "bubblewrap")


def test_summary_counts_xla_as_the_fallback() -> None:
    rows = (row("a", 25), row("b", 100, "xla"), row("c", None, "none"), row("d", 125, "xla"))
    s = summarise(rows)
    assert (s.tasks, s.correct, s.faster) == (4, 3, 1)
    assert s.geometric_mean == pytest.approx(4**0.25)
    assert s.median == 1
    assert summarise(()).geometric_mean == 1


def test_wins_against_experts() -> None:
    better = msgspec.structs.replace(row("a", 25), expert=Time(3e-5, "simulated"))
    worse = msgspec.structs.replace(row("b", 50), expert=Time(3e-5, "simulated"))
    s = summarise((better, worse, row("c", 10)))
    assert (s.beats_expert, s.experts) == (1, 2)


@pytest.mark.parametrize(
    ("before", "after", "jax", "word"),
    [
        (row("a", 50), row("a", 40), "1", "better"),
        (row("a", 50), row("a", 50.1), "1", "same"),
        (row("a", 50), row("a", 51), "1", "worse"),
        (row("a", 50), row("a", 51), "2", "same"),
        (row("a", 50), row("a", 60), "2", "worse"),
        (row("a", 99, "xla"), row("a", 50), "1", "new win"),
        (row("a", 50), row("a", None, "none"), "1", "lost win"),
        (row("a", 50), row("a", 10, digest="other"), "1", "not comparable"),
        (row("a", None, "none"), row("a", None, "none"), "1", "same"),
    ],
)
def test_changes_beyond_noise(before: Row, after: Row, jax: str, word: str) -> None:
    (change,) = compare(table(before), table(after, jax=jax))
    assert change.word == word


def test_tables_that_cannot_be_compared() -> None:
    other = msgspec.structs.replace(SETTINGS, target="v5e")
    with pytest.raises(UsageError, match="target"):
        compare(table(), msgspec.structs.replace(table(), settings=other))


def test_storage_and_bad_files(tmp_path: Path) -> None:
    saved = table(row("a", 25))
    save_result(tmp_path, saved)
    assert load_result(tmp_path) == load_result(tmp_path / "bench.json") == saved
    with pytest.raises(UsageError, match="no benchmark result"):
        load_result(tmp_path / "none")
    (tmp_path / "bench.json").write_text("{}")
    with pytest.raises(UsageError, match="not a benchmark result"):
        load_result(tmp_path)


def test_rendering_escapes_and_names_provenance() -> None:
    nasty = msgspec.structs.replace(row("a|b", None, "none"), message="<script>|x")
    markdown = render_markdown(table(row("a", 25), nasty))
    assert "25 us simulated ±3 %" in markdown
    assert "a\\|b" in markdown
    assert "faster than XLA 1" in markdown
    page = render_html(table(row("a", 25), nasty))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
