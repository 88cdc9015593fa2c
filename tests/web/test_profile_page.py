"""The picture of a profile in a browser: wide and light, narrow and dark, without a network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.fidelity.archives import unpack

from maxkernel.report.profile_html import ProfilePage, render_profile
from maxkernel.schedule import profile_view, roof, simulate
from maxkernel.targets import TARGETS

DATA = Path(__file__).parent.parent / "schedule" / "data"
HOSTILE = 'body = "</script><script>alert(1)</script>"\n<img src=x onerror=alert(2)>\n'
SCREENS = [(1280, "light"), (390, "dark")]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two programs side by side; the source of one would like to be part of the page."""
    folder = tmp_path_factory.mktemp("page")
    target = TARGETS["v6e"]
    programs = []
    for name in ("v6e-matmul", "v6e-rmsnorm"):
        unpack(DATA / f"{name}.tar.gz", folder / name)
        programs.append((f"{name}.py", simulate(folder / name, target)))
    views = tuple(profile_view(name, program, 8e-6, HOSTILE) for name, program in programs)
    drawn = roof(programs, 2 * 1024**3, target.bf16_flops, target)
    path = folder / "page.html"
    path.write_text(render_profile(ProfilePage("t", "v6e", views, (HOSTILE, HOSTILE), drawn)))
    return path


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_the_page_fits_and_draws(
    tab: Callable[..., Any], page: Path, width: int, scheme: str
) -> None:
    opened = tab(viewport={"width": width, "height": 800}, color_scheme=scheme)
    asked: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(page.as_uri())
    assert asked == [page.as_uri()]
    assert opened.evaluate("document.documentElement.scrollWidth") == width
    dark = opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
    assert dark == (scheme == "dark")
    for picture in ("timeline of the steady state", "roofline"):
        assert opened.locator(f'svg[aria-label="{picture}"]').count() >= 1
    first = opened.locator('svg[aria-label="timeline of the steady state"]').first
    for kind in ("work", "wait", "in", "out"):
        assert first.locator(f"rect.{kind}").count() >= 2, kind
    inside = first.evaluate(
        "svg => [...svg.querySelectorAll('rect')].every(r => r.x.baseVal.value >= 0 && "
        "r.x.baseVal.value + r.width.baseVal.value <= svg.viewBox.baseVal.width + 1)"
    )
    assert inside
    assert opened.locator("svg circle").count() == 2
    words = opened.locator("main").inner_text()
    assert "every step (64)" in words and "input 0 bf16[256,256]" in words
