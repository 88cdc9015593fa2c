"""The studio in a real browser."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from studio_driver import Place, Studio  # isort: skip
from pairing_helpers import PLAN, Script, new_run

from maxkernel.modes.pair import PairSession
from maxkernel.modes.pair.acts import Began, Ended, Wrote
from maxkernel.search.job import CHOICE, Job
from maxkernel.store import RunFile, list_runs
from maxkernel.types import Budget, Outcome, Plan

Tab = Callable[..., Page]
SLOW = 90_000

HOSTILE = "<img src=x onerror='window.pwned=1'></script><script>window.pwned=1</script>"


def approve(page: Page, title: str) -> None:
    """Waits for a stage to be shown and approves it."""
    card = page.locator("#proposal .open")
    expect(card.get_by_role("heading")).to_contain_text(title, timeout=SLOW)
    card.get_by_role("button", name="Approve").click()


def said(page: Page, text: str) -> None:
    """Waits for a line of the conversation."""
    expect(page.locator("#talk")).to_contain_text(text, timeout=SLOW)


def fits(page: Page) -> None:
    """Nothing reaches beyond the width of the window."""
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1], width


def test_from_a_task_to_an_accepted_kernel(
    place: Place, studio: Studio, tab: Tab, screenshots: Path
) -> None:
    page = tab()
    page.goto(studio.url)
    page.get_by_label("Task").fill("tiny_rms")
    page.get_by_label("Evaluations at most").fill("8")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/pair", timeout=SLOW)
    run = page.url.split("/")[-2]

    approve(page, "think up plans")
    expect(page.locator(".card")).to_have_count(1, timeout=SLOW)
    page.screenshot(path=screenshots / "pair-plans.png", full_page=True)
    approve(page, "write a kernel")
    expect(page.locator("#kernel")).to_contain_text("pallas_call", timeout=SLOW)
    approve(page, "judge the kernel")
    said(page, "design 1 accepted")

    page.reload()
    other = tab(viewport={"width": 390, "height": 844}, color_scheme="dark")
    other.goto(page.url)
    for each in (page, other):
        expect(each.locator("#proposal .open")).to_contain_text("tune the constants")
        fits(each)
    page.locator("#approve").click()
    other.locator("#approve").click(force=True)
    said(page, "best:")
    said(other, "best:")
    client = PairSession(place.runs / run, "test")
    decisions = [line.text for line in client.state.lines]
    assert decisions.count("tune the constants: yes") == 1
    approve(page, "profile the kernel")
    said(page, "of the time")

    page.get_by_label("To the team").fill("what does pl.BlockSpec do?")
    page.get_by_role("button", name="Ask", exact=True).click()
    said(page, "No model is configured")
    expect(page.get_by_label("To the team")).to_have_value("")

    page.get_by_role("link", name="Edit kernel").click()
    source = page.locator("#editor textarea").input_value()
    page.locator("#editor textarea").fill(re.sub(r"(?m)^EPS = .*$", "EPS = 0.5", source))
    page.screenshot(path=screenshots / "pair-editor.png", full_page=True)
    page.get_by_role("button", name="Save as a new design").click()
    expect(page.locator("#editor form")).to_have_count(0, timeout=SLOW)
    approve(page, "judge the kernel")
    said(page, "refused, check/mismatch")
    expect(page.locator("#kernel .failure")).to_contain_text("mismatch")
    page.screenshot(path=screenshots / "pair-refused.png", full_page=True)
    page.goto(f"{studio.url}/runs/{run}/compare?a=1&b=2")
    expect(page.locator(".diff .added")).to_contain_text("EPS = 0.5")
    page.screenshot(path=screenshots / "compare.png", full_page=True)

    page.goto(f"{studio.url}/runs/{run}/pair")
    page.get_by_role("button", name="Undo: judge the kernel").click()
    page.get_by_role("button", name="Undo: take the edited kernel").click()
    expect(page.locator("#kernel h2")).to_contain_text("Design 1")
    page.get_by_role("button", name="Accept").click()
    approve(page, "accept the kernel")
    said(page, "the bundle is in")
    expect(other.locator("#kernel")).to_contain_text("accepted by you", timeout=SLOW)
    page.screenshot(path=screenshots / "pair-accepted.png", full_page=True)
    other.screenshot(path=screenshots / "pair-phone-dark.png", full_page=True)
    assert (place.runs / run / "bundle" / "kernel.py").is_file()
    accepted = client.state.bench.accepted
    assert accepted is not None and accepted.design == 1
    client.close()


def test_pages_of_a_run(place: Place, studio: Studio, tab: Tab, screenshots: Path) -> None:
    run = next(r.run for r in list_runs(place.runs) if r.task == "tiny_rms" and r.evaluations)
    for options, suffix in (
        ({"color_scheme": "light"}, ""),
        ({"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}, "-phone-dark"),
    ):
        page = tab(**options)
        for name, path in (
            ("runs", "/"),
            ("run", f"/runs/{run}"),
            ("design", f"/runs/{run}/designs/1"),
        ):
            page.goto(studio.url + path)
            if name != "runs":
                expect(page.locator("figure svg").first).to_be_visible()
            fits(page)
            page.screenshot(path=screenshots / f"{name}{suffix}.png", full_page=True)
    page = tab()
    page.goto(f"{studio.url}/runs/{run}")
    page.locator("figure[data-picture=graph] a").first.click()
    page.wait_for_url("**/designs/1")
    expect(page.locator(".source td.margin[class*=heat]").first).to_be_visible()
    expect(page.locator("figure[data-picture=timeline]")).to_contain_text("us")


def test_the_exported_file_needs_nothing_else(
    place: Place, studio: Studio, tab: Tab, tmp_path: Path, screenshots: Path
) -> None:
    run = next(r.run for r in list_runs(place.runs) if r.task == "tiny_rms" and r.evaluations)
    page = tab(accept_downloads=True)
    page.goto(f"{studio.url}/runs/{run}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    path = tmp_path / "run.html"
    download.value.save_as(path)
    offline = tab(offline=True)
    requests: list[str] = []
    offline.on("request", lambda request: requests.append(request.url))
    offline.goto(path.as_uri())
    expect(offline.locator("figure[data-picture=curve] svg")).to_be_visible()
    expect(offline.locator("details[open] figure[data-picture=timeline] svg").first).to_be_visible()
    expect(offline.locator("#history")).to_contain_text("tune the constants")
    offline.screenshot(path=screenshots / "export.png", full_page=True)
    assert requests == [path.as_uri()]


def test_hostile_text_stays_text(place: Place, studio: Studio, tab: Tab, tmp_path: Path) -> None:
    folder = new_run(place.root / "injection")
    script = Script(folder)
    client = PairSession(folder, "test")
    hostile = Plan("rowwise", HOSTILE, HOSTILE, {"block": HOSTILE})
    proposal = client.answer(True).proposal
    assert proposal is not None
    script.write(Began(proposal=proposal.id))
    script.write(Ended(proposal=proposal.id, text=HOSTILE, plans=(hostile,)))
    script.design(1, f"TUNABLES = {{}}  # {HOSTILE}\n\n\ndef kernel(x, w):\n    return x\n")
    proposal = client.answer(True).proposal
    assert proposal is not None
    outcome = Outcome(hostile, 1, None, None, failure=HOSTILE)
    script.write(Began(proposal=proposal.id))
    script.write(Ended(proposal=proposal.id, text=HOSTILE, outcomes={1: outcome}))
    client.move(1)
    client.note(HOSTILE)
    client.close()
    script.run.close()
    folder.rename(place.runs / "injection-run")
    page = tab()
    for path in ("", "/pair", "/pair?edit=kernel", "/pair?edit=1", "/designs/1"):
        page.goto(f"{studio.url}/runs/injection-run{path}")
        expect(page.locator("body")).to_contain_text("onerror" if path else "design 1")
        page.wait_for_timeout(200)
        assert page.evaluate("window.pwned") is None
        assert page.locator("img").count() == 0
    page.goto(f"{studio.url}/runs/injection-run/pair")
    said(page, HOSTILE)
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    path = tmp_path / "hostile.html"
    download.value.save_as(path)
    page.goto(path.as_uri())
    expect(page.locator("figure[data-picture=graph] > svg")).to_be_visible()
    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == 0


def test_a_page_follows_what_others_do(place: Place, studio: Studio, tab: Tab) -> None:
    folder = new_run(place.root / "followed", Budget(candidates=5))
    folder.rename(place.runs / "followed-run")
    folder = place.runs / "followed-run"
    script = Script(folder)
    page = tab()
    page.goto(f"{studio.url}/runs/followed-run/pair")
    page.get_by_label("To the team").fill("half a sentence")
    terminal = PairSession(folder, "terminal")
    terminal.note("from the terminal")
    said(page, "from the terminal")
    expect(page.get_by_label("To the team")).to_have_value("half a sentence")
    proposal = terminal.answer(True).proposal
    assert proposal is not None
    script.write(Began(proposal=proposal.id))
    script.write(Wrote(proposal=proposal.id, role="planner", text=f"one {HOSTILE} ", fresh=True))
    expect(page.locator("#draft")).to_contain_text("the planner writes")
    expect(page.locator("#draft pre")).to_contain_text(HOSTILE)
    script.write(Wrote(proposal=proposal.id, role="planner", text="and more"))
    expect(page.locator("#draft pre")).to_contain_text("and more")
    assert page.evaluate("window.pwned") is None
    script.write(Ended(proposal=proposal.id, text="done", plans=(PLAN,)))
    expect(page.locator(".card")).to_have_count(1)
    expect(page.locator("#draft")).to_be_hidden()
    page.get_by_role("link", name="Edit plan 1").click()
    area = page.locator("#editor textarea")
    area.fill(area.input_value().replace("one pass", "two passes"))
    terminal.note("still typing?")
    said(page, "still typing?")
    expect(area).to_have_value(re.compile("two passes"))
    area.press("Control+s")
    expect(page.locator(".card h3")).to_contain_text("two passes")
    assert terminal.state.bench.cards[0].by == "person"
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(page.locator(".card.rejected")).to_have_count(1)
    page.get_by_role("button", name="Ask for plans").click()
    expect(page.get_by_role("button", name="Ask for plans")).to_have_attribute(
        "aria-pressed", "true"
    )
    assert terminal.state.approve == "plans"
    terminal.close()
    script.run.close()


def test_the_keyboard_is_enough(place: Place, studio: Studio, tab: Tab) -> None:
    folder = new_run(place.root / "keyed")
    folder.rename(place.runs / "keyed-run")
    script = Script(place.runs / "keyed-run")
    script.run.step("prepared-later", int, lambda: 1)
    page = tab()
    page.goto(f"{studio.url}/runs/keyed-run/pair")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    seen: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent.trim().slice(0, 30)"))
        if seen[-1] == "Leave a note":
            break
    assert "Ask" in seen and "Leave a note" in seen, seen
    named = page.evaluate(
        "[...document.querySelectorAll('input:not([type=hidden]), select, textarea')]"
        ".filter(e => !e.labels.length && !e.ariaLabel).length"
    )
    assert named == 0
    script.run.close()


def test_a_search_is_watched_live_and_hears_a_hint(
    place: Place, studio: Studio, tab: Tab, screenshots: Path
) -> None:
    search = place.start(
        "optimize", str(place.task), "--mode", "graph", "--budget-candidates", "30"
    )
    try:
        page = tab()
        page.goto(studio.url)
        row = page.locator("tr", has_text="graph")
        expect(row).to_contain_text("running", timeout=SLOW)
        row.get_by_role("link").click()
        expect(page.locator("#feed")).to_contain_text("us simulated", timeout=SLOW)
        page.get_by_label("Hint for the team").fill("try more rows in a chunk")
        page.get_by_role("button", name="Send hint").click()
        expect(page.locator("#feed")).to_contain_text("hint for the search: try more rows")
        page.screenshot(path=screenshots / "search-live.png", full_page=True)
        run = page.url.rpartition("/")[2]
        assert heard(place.runs / run, "try more rows in a chunk")
        page.get_by_role("button", name="Stop").click()
        ended = re.compile("stopped|finished")
        state = page.locator("#head .state")
        expect(state).to_have_text(ended, timeout=SLOW)
        search.wait(60)
        page.get_by_label("Design", exact=True).fill("1")
        page.get_by_role("button", name="Pin").click()
        expect(page.locator("#feed")).to_contain_text("pin for design 1")
        expect(page.locator("figure[data-picture=graph]")).to_contain_text("pinned")
        if state.text_content() == "stopped":
            page.get_by_role("button", name="Resume").click()
            expect(state).to_have_text(re.compile("running|finished"), timeout=SLOW)
            page.get_by_role("button", name="Stop").click()
            expect(state).to_have_text(ended, timeout=SLOW)
    finally:
        search.wait(60)
        assert search.stdout is not None
        search.stdout.close()


def heard(folder: Path, text: str) -> bool:
    """A decision of the search was taken with this hint in mind, within a minute."""
    end = time.monotonic() + 60
    with RunFile.read(folder) as run:
        while time.monotonic() < end:
            number = 0
            while (job := run.recall(f"{CHOICE}{number}", Job)) is not None:
                if any(steer.text == text for steer in job.steers):
                    return True
                number += 1
            time.sleep(0.1)
    return False
