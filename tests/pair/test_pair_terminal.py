"""`maxkernel pair` by keystrokes in a pseudo-terminal."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pairing_helpers import tiny_task
from terminal_driver import CTRL_D, ENTER, TAB, UP, Terminal

sys.path.append(str(Path(__file__).parent.parent / "llm"))

from fake_llm_server import FakeServer, Say

from maxkernel.modes.pair import PairSession
from maxkernel.store import RunFile, list_runs

pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
"""jax, loaded by other tests of this process, warns; the child execs at once."""

MAXKERNEL = [sys.executable, "-c", "from maxkernel.cli import main; main()"]

EDITOR = """#!/bin/sh
case "$1" in
*.plan) sed -i 's/^strategy: .*/strategy: mine, with wide chunks/' "$1" ;;
*.py) sed -i 's/EPS = .*/EPS = 0.5/' "$1" ;;
esac
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terminal")
    editor = folder / "editor.sh"
    editor.write_text(EDITOR)
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    tiny_task(folder)
    return folder


@pytest.fixture
def environment(place: Path) -> dict[str, str]:
    return os.environ | {
        "MAXKERNEL_RUNS_DIR": str(place / "runs"),
        "MAXKERNEL_CACHE_DIR": str(place / "cache"),
        "XDG_STATE_HOME": str(place / "state"),
        "EDITOR": str(place / "editor.sh"),
        "VISUAL": "",
        "TERM": "xterm-256color",
    }


@pytest.fixture
def terminals(place: Path, environment: dict[str, str]) -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.kill()


def start(opened: list[Terminal], environment: dict[str, str], *arguments: str) -> Terminal:
    terminal = Terminal([*MAXKERNEL, "pair", *arguments], environment)
    opened.append(terminal)
    terminal.expect("XLA takes", 90)
    return terminal


def run_folder(place: Path) -> Path:
    return Path(list_runs(place / "runs")[0].folder)


ANSWER = "It waits for HBM most of its time.\nThree buffers would hide it."


@pytest.fixture
def server() -> Iterator[FakeServer]:
    started = FakeServer()
    yield started
    started.close()


def test_a_session_by_keystrokes_survives_a_kill(
    place: Path, terminals: list[Terminal], environment: dict[str, str], server: FakeServer
) -> None:
    terminal = start(terminals, environment, str(place / "tiny_rms.py"), "--budget-candidates", "6")
    terminal.expect("next: think up plans")
    terminal.expect("[Y/n/e]")
    terminal.keys(ENTER)
    terminal.expect("plan 1: rowwise")
    terminal.expect("next: write a kernel")
    terminal.keys("e")
    terminal.keys(ENTER)
    terminal.expect("plan 1 edited")
    terminal.expect("mine, with wide chunks")
    terminal.line("/undo")
    terminal.expect("undone: plan 1 edited")
    terminal.expect("write a kernel?")
    terminal.line("y")
    terminal.expect("design 1:")
    terminal.expect("judge the kernel?")
    terminal.line("no later")
    terminal.expect("judge the kernel: no: later")
    terminal.keys("/jud")
    terminal.expect("/judge  capture, compile")
    terminal.keys(TAB)
    terminal.expect("/judge")
    terminal.keys(ENTER)
    terminal.expect("asked: judge the kernel")
    terminal.keys(ENTER)
    terminal.expect("design 1 accepted")
    terminal.expect("next: tune the constants")
    terminal.line("what does pl.BlockSpec do")
    terminal.expect("No model is configured")
    terminal.line("/explain 1-3")
    terminal.expect("Row")
    terminal.line("/nonsense")
    terminal.expect("there is no command /nonsense")
    terminal.line("/tune many")
    terminal.expect("not a number of evaluations")
    terminal.keys(UP + UP)
    terminal.expect("/nonsense")
    terminal.keys("\x15")
    terminal.kill()

    with RunFile.read(run_folder(place)) as run:
        judged = len(run.evaluations())
    model = ("--explainer", f"{server.url}/v1#some", "--max-tokens", "100000")
    again = start(terminals, environment, "--resume", "last", "--approve", "none", *model)
    again.expect("design 1 accepted")
    again.expect("next: tune the constants")
    again.keys(ENTER)
    again.expect("best:")
    again.expect("takes")
    again.line("/edit kernel")
    again.expect("your kernel; it is judged like any other")
    again.expect("refused, check/mismatch")
    again.line("/compare 1 2")
    again.expect("EPS = 0.5")
    again.line("/graph")
    again.expect("edit by a person")
    again.line("/undo")
    again.line("/undo")
    again.expect("undone: take the edited kernel")
    server.script(Say(ANSWER, pieces=40, pause=0.1))
    again.line("why is it not faster")
    again.expect("explainer writes:")
    again.expect(".. It waits for HBM most of its time.")
    again.expect("= Three buffers would hide it.")
    again.line("/accept")
    again.expect("the bundle is in")
    again.line("/undo")
    again.expect("undone: accept the kernel")
    again.expect("the bundle is withdrawn")
    again.line("/redo")
    again.expect("the bundle holds design 1 again")
    again.line(f"/export {place / 'run.html'}")
    again.expect("written:")
    exported = (place / "run.html").read_text()
    assert all(word in exported for word in ("tiny_rms", "EPS = 0.5", "</html>"))
    again.line("why is it not faster")
    again.expect("explainer writes:")
    left = time.monotonic()
    again.keys(CTRL_D)
    again.expect("comes back to this point")
    assert again.wait() == 0 and time.monotonic() - left < 10

    folder = run_folder(place)
    client = PairSession(folder, "terminal")
    state = client.state
    assert state.bench.accepted is not None and state.bench.accepted.design == 1
    assert judged == 1 < len(client.run.evaluations()) <= 6
    assert (folder / "bundle" / "kernel.py").is_file()
    client.close()


def test_two_terminals_share_a_session(
    place: Path, terminals: list[Terminal], environment: dict[str, str]
) -> None:
    first = start(terminals, environment, str(place / "tiny_rms.py"))
    first.expect("next: think up plans")
    second = start(terminals, environment, "--resume", run_folder(place).name)
    second.expect("another process drives this run")
    second.line("/note rows are long")
    first.expect("rows are long")
    second.line("y")
    first.expect("1 plan on the table")
    second.expect("next: write a kernel")
    first.line("/quit")
    assert first.wait() == 0
    second.line("y")
    second.expect("design 1:", 30)
    time.sleep(0.2)
    second.keys(CTRL_D)
    assert second.wait() == 0


def test_wrong_use_is_told(environment: dict[str, str], terminals: list[Terminal]) -> None:
    terminal = Terminal([*MAXKERNEL, "pair"], environment)
    terminals.append(terminal)
    terminal.expect("name a task, or a run with --resume")
    assert terminal.wait() == 2
