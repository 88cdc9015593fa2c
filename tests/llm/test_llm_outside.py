"""Programs and people as models: `cli:` and `relay:`."""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from pathlib import Path

import pytest
from llm_helpers import CODE, GOOD, Asker

from maxkernel.engineers.roles import NoAnswer, Stopped


def program(tmp_path: Path, body: str) -> str:
    """Notation of a model that is a Python script."""
    script = tmp_path / "model.py"
    script.write_text(body)
    return f"cli:{shlex.quote(sys.executable)} {shlex.quote(str(script))}"


def test_a_program_reads_the_prompt_and_prints_the_answer(tmp_path):
    seen = tmp_path / "seen"
    one = Asker(
        program(
            tmp_path,
            f"import sys; open({str(seen)!r}, 'w').write(sys.stdin.read()); print({GOOD.text!r})",
        )
    )
    assert one.ask() == CODE
    assert seen.read_text().index("You write kernels.") < seen.read_text().index("write a kernel")
    (call,) = one.calls
    assert call.estimated and call.cost is None and call.output_tokens > 5


def test_a_program_is_told_what_was_wrong(tmp_path):
    one = Asker(
        program(
            tmp_path,
            "import sys; t = sys.stdin.read()\n"
            f"print({GOOD.text!r} if 'fenced block' in t else 'no code')",
        )
    )
    assert one.ask() == CODE
    assert "no code" not in one.calls[0].request
    assert "no code" in one.calls[1].request


def test_a_failing_program_is_named_with_its_words(tmp_path):
    one = Asker(program(tmp_path, "import sys; sys.exit('not logged in')"))
    with pytest.raises(NoAnswer, match="not logged in"):
        one.ask()
    assert one.desk.troubles.counts()["server"] == 4


def test_a_missing_program_is_named():
    with pytest.raises(NoAnswer, match="no-such-program"):
        Asker("cli:no-such-program").ask()


def test_a_hanging_program_dies_with_its_children(tmp_path):
    mark = tmp_path / "pid"
    one = Asker(
        program(
            tmp_path,
            "import subprocess, sys, time\n"
            f"p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
            f"open({str(mark)!r}, 'w').write(str(p.pid)); time.sleep(60)",
        ),
        seconds=1.0,
    )
    with pytest.raises(NoAnswer, match="no answer within 1 seconds"):
        one.ask()
    time.sleep(0.2)
    pid = int(mark.read_text())
    stat = Path(f"/proc/{pid}/stat")
    assert not stat.exists() or stat.read_text().split()[2] == "Z"


def answer(folder: Path, text: str, slowly: bool = False) -> threading.Thread:
    """Somebody who answers the first request that appears."""

    def work() -> None:
        while True:
            for path in folder.glob("*.md"):
                reply = path.with_suffix(".answer.md")
                if not path.name.endswith(".answer.md") and not reply.exists():
                    if slowly:
                        with reply.open("w") as file:
                            for piece in (text[:20], text[20:]):
                                file.write(piece)
                                file.flush()
                                time.sleep(0.1)
                    else:
                        reply.write_text(text)
                    return
            time.sleep(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("slowly", [False, True])
def test_a_person_answers_a_file_with_a_file(tmp_path, slowly):
    folder = tmp_path / "relay"
    somebody = answer(folder, GOOD.text, slowly)
    assert Asker(f"relay:{folder}").ask() == CODE
    somebody.join()
    assert sorted(p.name for p in folder.iterdir()) == [
        "0001-implementer.answer.md",
        "0001-implementer.md",
    ]
    assert "write a kernel" in (folder / "0001-implementer.md").read_text()


def test_numbers_go_on_and_are_never_taken_twice(tmp_path):
    folder = tmp_path / "relay"
    people = [answer(folder, GOOD.text) for _ in range(1)]
    Asker(f"relay:{folder}").ask()
    people[0].join()
    askers = [Asker(f"relay:{folder}") for _ in range(8)]
    threads = [threading.Thread(target=asker.ask) for asker in askers]
    for thread in threads:
        thread.start()
    waited = time.monotonic() + 20
    while len(list(folder.glob("*-implementer.md"))) < 9 and time.monotonic() < waited:
        time.sleep(0.05)
    for number in range(2, 10):
        (folder / f"{number:04}-implementer.answer.md").write_text(GOOD.text)
    for thread in threads:
        thread.join(20)
    assert all(asker.calls[0].text == GOOD.text for asker in askers)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(NoAnswer, match="cannot write into"):
        Asker(f"relay:{blocker / 'folder'}").ask()


def test_waiting_for_a_person_can_be_stopped(tmp_path):
    one = Asker(f"relay:{tmp_path / 'relay'}", seconds=0.1)
    threading.Timer(0.5, one.desk.stop).start()
    with pytest.raises(Stopped, match="stopped"):
        one.ask()
    assert os.listdir(tmp_path / "relay") == ["0001-implementer.md"]
