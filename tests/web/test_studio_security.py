"""Who may talk to the studio, over real HTTP."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator

import pytest

from studio_driver import Place, Studio  # isort: skip
from pairing_helpers import Script, new_run

PAYLOAD = '<img src=x onerror="window.pwned=1"></script><script>window.pwned=1</script>'


def ask(
    studio: Studio, method: str, path: str, body: str | None = None, **headers: str
) -> tuple[int, dict[str, str], str]:
    """One request; header names with underscores for dashes."""
    connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        named.setdefault("content-type", "application/x-www-form-urlencoded")
    try:
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, found, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def run(place: Place) -> Iterator[str]:
    """A run with hostile text in its plan and kernel; the studio only reads it."""
    folder = new_run(place.root / "hostile")
    script = Script(folder)
    script.run.step("x", int, lambda: 1)
    script.design(1, f"# {PAYLOAD}\ndef kernel(x, w):\n    return x\n")
    script.run.close()
    place.runs.mkdir(exist_ok=True)
    folder.rename(place.runs / "hostile-run")
    yield "hostile-run"


@pytest.fixture(scope="module")
def guarded(place: Place) -> Iterator[Studio]:
    """A studio on every address of this machine."""
    running = Studio(place, "--host", "0.0.0.0")
    yield running
    running.stop()


def test_changes_from_elsewhere_are_refused(studio: Studio, run: str) -> None:
    path, body = f"/runs/{run}/pair/decide", "do=note&text=hello"
    own = f"http://127.0.0.1:{studio.port}"
    refused = [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"http://127.0.0.1:{studio.port + 1}"},
        {"origin": own, "sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "none"},
        {},
    ]
    for headers in refused:
        assert ask(studio, "POST", path, body, **headers)[0] == 403, headers
    status, _, _ = ask(studio, "POST", path, body, origin=own)
    assert status == 303
    assert "hello" in ask(studio, "GET", f"/runs/{run}/pair/parts/talk")[2]


def test_a_foreign_name_for_this_host_is_refused(studio: Studio) -> None:
    assert ask(studio, "GET", "/", host=f"evil.example:{studio.port}")[0] == 421
    assert ask(studio, "GET", "/", host=f"localhost:{studio.port}")[0] == 200


def test_every_answer_carries_the_policy(studio: Studio, run: str) -> None:
    for path in ("/", f"/runs/{run}", f"/runs/{run}/pair", "/static/studio.css", "/nothing"):
        _, headers, _ = ask(studio, "GET", path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_pages_hold_no_script_and_no_handler_of_their_own(studio: Studio, run: str) -> None:
    paths = ("", "/pair", "/designs/1", "/compare?a=1&b=1")
    for page in (ask(studio, "GET", f"/runs/{run}{path}")[2] for path in paths):
        scripts = re.findall(r"<script([^>]*)>", page)
        assert scripts
        assert all("src=" in s or 'type="application/json"' in s for s in scripts)
        assert not re.search(r"<[^>]*\s(on\w+|style)=", page)
        assert PAYLOAD not in page and "<img" not in page
    assert "&lt;img" in ask(studio, "GET", f"/runs/{run}/designs/1")[2]


def test_large_and_odd_forms_are_refused(studio: Studio, run: str) -> None:
    own = f"http://127.0.0.1:{studio.port}"
    path = f"/runs/{run}/pair/kernel"
    assert ask(studio, "POST", path, "source=" + "x" * (2 << 20), origin=own)[0] == 413
    assert ask(studio, "POST", path, "&".join(f"a{n}=1" for n in range(99)), origin=own)[0] == 400
    assert ask(studio, "POST", path, "source=", origin=own)[0] == 400
    for odd in ("count=-1", "count=1e9", "count=9999999999"):
        body = f"stage=tune&{odd}"
        assert ask(studio, "POST", f"/runs/{run}/pair/ask", body, origin=own)[0] == 400
    assert ask(studio, "POST", f"/runs/{run}/pair/ask", "stage=rm", origin=own)[0] == 400
    body = "task=../../etc/passwd&target=v6e"
    assert ask(studio, "POST", "/pair", body, origin=own)[0] == 400


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2f..%2fetc", "nothing", ".hidden"])
def test_only_runs_are_shown(studio: Studio, name: str) -> None:
    assert ask(studio, "GET", f"/runs/{name}")[0] == 404
    assert ask(studio, "GET", f"/static/{name}/../../app.py")[0] == 404


def test_other_addresses_ask_for_the_token(guarded: Studio, run: str) -> None:
    assert ask(guarded, "GET", "/")[0] == 401
    assert ask(guarded, "GET", "/?token=wrong")[0] == 401
    token = guarded.address.partition("token=")[2]
    assert len(token) >= 24
    status, headers, _ = ask(guarded, "GET", f"/?token={token}")
    assert status == 303 and headers["location"] == "/"
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and token not in cookie
    value = cookie.partition(";")[0]
    status, _, page = ask(guarded, "GET", f"/runs/{run}", cookie=value)
    assert status == 200 and token not in page
    assert ask(guarded, "GET", "/", authorization=f"Bearer {token}")[0] == 200
    assert ask(guarded, "GET", f"/runs/{run}/events")[0] == 401
    body = "do=note&text=x"
    assert ask(guarded, "POST", f"/runs/{run}/pair/decide", body, cookie=value)[0] == 403


def test_no_secret_of_the_environment_reaches_a_page(place: Place, studio: Studio) -> None:
    for path in ("/", "/parts/runs"):
        page = ask(studio, "GET", path)[2]
        assert "ANTHROPIC" not in page and "API_KEY" not in page
