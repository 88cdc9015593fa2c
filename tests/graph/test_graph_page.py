"""The graph as data and as a page: complete, self-contained, safe against hostile text."""

from __future__ import annotations

import re
from pathlib import Path

from graph_world import OPTIMUM, World, context_of, open_run

from maxkernel.modes import run_auto, run_graph
from maxkernel.report.graph_html import GraphView, render_page, view_graph
from maxkernel.search.job import Steer
from maxkernel.search.settings import SearchSettings
from maxkernel.search.steer import say
from maxkernel.store import RunFile
from maxkernel.types import Budget

BUDGET = Budget(candidates=60, patience=100)


def searched(folder: Path) -> GraphView:
    with open_run(folder, BUDGET) as run:
        run_graph(context_of(run, World(), BUDGET), SearchSettings())
    with RunFile.read(folder) as run:
        return view_graph(run)


def test_the_view_tells_the_way_to_the_best(tmp_path: Path) -> None:
    view = searched(tmp_path / "r")
    best = next(n for n in view.nodes if n.id == view.best)
    assert best.seconds is not None and abs(best.seconds - OPTIMUM) < 1e-12
    assert best.best_line and best.parents and best.diff.startswith("---")
    tops = [n for n in view.nodes if n.best_line and not n.parents]
    assert [n.strategy for n in tops] == ["resident"]
    assert tops[0].failure is not None and tops[0].state == "refused"
    bests = [p.best for p in view.curve if p.best is not None]
    assert bests == sorted(bests, reverse=True) and len(view.curve) == 60


def test_the_page_loads_nothing_and_breaks_out_of_nothing(tmp_path: Path) -> None:
    searched(tmp_path / "r")
    with RunFile.read(tmp_path / "r") as run:
        say(run, Steer("hint", 1, "</script><script>alert(1)</script>"))
    view = searched(tmp_path / "r")
    page = render_page(view)
    assert "alert(1)" not in page or "</script><script>alert" not in page
    assert page.count("</script>") == 1
    rest = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|\bsrc=|\bimport\(|fetch\(", rest)


def test_any_run_is_a_graph(tmp_path: Path) -> None:
    with open_run(tmp_path / "r", Budget(10)) as run:
        run_auto(context_of(run, World(), Budget(10)))
    with RunFile.read(tmp_path / "r") as run:
        view = view_graph(run)
    assert view.best is not None and {n.state for n in view.nodes} >= {"accepted"}
    assert any(n.move.startswith("repair") and n.parents for n in view.nodes)
    render_page(view)
