"""A studio, and a browser in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright
from studio_driver import CHROMIUM, FLAGS, Place, Studio


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("studio"))


@pytest.fixture(scope="session")
def studio(place: Place) -> Iterator[Studio]:
    running = Studio(place)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.fail(f"{CHROMIUM} is missing: apt-get install chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Callable[..., Any]]:
    """Opens tabs that fail the test when a page reports an error."""
    errors: list[str] = []
    contexts: list[Any] = []

    def opened(**options: Any) -> Any:
        options.setdefault("viewport", {"width": 1360, "height": 900})
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console",
            lambda message: errors.append(message.text) if message.type == "error" else None,
        )
        page.on("dialog", lambda dialog: errors.append(dialog.message) or dialog.dismiss())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not errors, errors


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """Where pictures of the pages are kept for people to look at."""
    folder = Path(__file__).parent.parent.parent / "test-output" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
