"""Tables on hand-made rows: what they add up to, what changed, how they print."""

from pathlib import Path

import msgspec
import pytest

from maxkernel.bench import (
    BenchResult,
    Row,
    Settings,
    compare,
    compare_tables,
    load_result,
    summarise,
)
from maxkernel.bench.render import cells, render_html, render_markdown
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
    equal = msgspec.structs.replace(row("d", 30), expert=Time(3e-5, "simulated"))
    unsure = msgspec.structs.replace(better, expert_doubt="lengths")
    refused = msgspec.structs.replace(row("e", 30), expert_problem="check/mismatch: wrong")
    s = summarise((better, worse, row("c", 10), equal, unsure, refused))
    assert (s.beats_expert, s.equals_expert, s.experts, s.experts_refused) == (1, 1, 4, 1)
    text = render_markdown(table(better, refused))
    assert "expert 30 us simulated (ours 1.20x)" in text
    assert "expert refused: check/mismatch: wrong" in text
    assert "wins against experts: 1 of 1" in text


def test_published_times_are_shown_and_never_divided() -> None:
    known = msgspec.structs.replace(row("a", 25), published_pallas_ms=6.5, published_xla_ms=23.0)
    assert "published Pallas 6.5 ms measured; published XLA 23 ms measured" in cells(known)
    assert summarise((known,)).experts == 0


def test_tasks_that_pass_without_work_are_named() -> None:
    broken = msgspec.structs.replace(
        row("4p_Sparse", 25), soundness="broken", weakness="a mean passes", holes=("row mean",)
    )
    published = msgspec.structs.replace(SETTINGS, edition="published")
    whole = msgspec.structs.replace(table(broken, row("b", 50)), settings=published)
    s = summarise(whole.rows)
    assert (s.passable, s.sound_geometric_mean) == (1, pytest.approx(2))
    text = render_markdown(whole)
    assert "1 of these tasks can be passed without doing the work by the published" in text
    assert "broken: a mean passes; found now: `row mean` passes" in text
    assert "faster; weak task" in text


def test_a_stopped_table_says_so() -> None:
    stopped = msgspec.structs.replace(table(row("a", 25)), tasks=3)
    assert "stopped: 1 of 3 tasks have a row" in render_markdown(stopped)


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


def test_a_comparison_adds_up_and_says_in_what_the_tables_differ() -> None:
    graph = msgspec.structs.replace(SETTINGS, mode="graph", candidates=16)
    before = table(row("a", 50), row("b", 40), row("gone", 20))
    after = msgspec.structs.replace(
        table(row("a", 25), row("b", 40), row("new", 9)), settings=graph
    )
    found = compare_tables(before, after)
    assert found.counts == {"better": 1, "same": 1}
    assert found.geometric_mean == pytest.approx(2**0.5)
    assert (found.only_before, found.only_after) == (("gone",), ("new",))
    assert found.differences == ("mode: auto -> graph", "candidates: 8 -> 16")
    newer = msgspec.structs.replace(before, stages={"compile": 3})
    clock = msgspec.structs.replace(before, rows=(row("a", 51),), stages={"compile": 4})
    (change,) = compare_tables(newer, clock).changes
    assert change.word == "same", "within the error of two clocks"
    assert compare_tables(newer, clock).differences == ("clock and judge, compile: 3 -> 4",)


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
    assert "faster than XLA 1 " in markdown
    assert "at most 8 evaluations" in markdown
    assert "- a\\|b: &lt;script>\\|x" in markdown, "failures are listed in words"
    page = render_html(table(row("a", 25), nasty))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_a_kernel_where_xla_does_not_fit_counts_without_a_speedup() -> None:
    time, why = Time(2.5e-5, "simulated", 0.02), "XLA's program does not fit in the memory of a v6e"
    only = Row("b", "d", "fits", None, time, None, plan="scans: in chunks", misfit=why)
    s = summarise((row("a", 25), only))
    assert (s.tasks, s.correct, s.faster, s.fits, s.unfinished) == (2, 2, 1, 1, 0)
    assert s.geometric_mean == pytest.approx(2)
    text = render_markdown(table(row("a", 25), only))
    assert "| b | does not fit | 25 us simulated ±2 % | - |" in text
    assert "only ours fits" in text and "without a faster kernel" not in text
    assert "does not fit in the memory of a v6e for 1 more" in text
    assert compare(table(row("b", None, "error")), table(only))[0].word == "new win"
