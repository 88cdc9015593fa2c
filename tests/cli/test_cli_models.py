"""Models on the command line: a scripted server that speaks OpenAI's wire, real SDK, real judge."""

import json
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_llm_server import FakeServer, Request, Say, Step

import maxkernel
from maxkernel.config import Settings
from maxkernel.types import Budget

KEY = "sk-test-0123456789abcdef"
VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")
SMALL = ("--budget-candidates", "4", "--patience", "1")


def engineer(kernel: str, seconds: float = 0.0) -> Callable[[Request], Step]:
    """A model with one idea; `seconds` is how long it takes to write the kernel."""

    def respond(request: Request) -> Step:
        text = request.text
        if "You plan Pallas kernels" in text:
            idea = {"strategy": "one pass", "reason": "fewer bytes", "speedup": 1.4}
            return Say("[]" if "one pass (design" in text else json.dumps([idea]))
        if "You write Pallas kernels" in text:
            return Say(f"```python\n{kernel}```", seconds=seconds)
        if "You explain TPU kernels" in text:
            return Say("It reads every row once.\x1b[2J")
        return Say("{}")

    return respond


@pytest.fixture(scope="module")
def kernel(new_cli: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """As the run keeps it: code of an answer has no blank lines around it."""
    made = new_cli(tmp_path_factory.mktemp("kernel")).folder / "kernel.py"
    return made.read_text().strip("\n") + "\n"


@pytest.fixture
def server(kernel: str) -> Iterator[FakeServer]:
    started = FakeServer()
    started.respond(engineer(kernel))
    yield started
    started.close()


def at(server: FakeServer) -> str:
    return f"openai:gpt-4.1@{server.url}/v1"


def keyed(cli: Any, key: str = KEY) -> Any:
    """The command line with a key for one provider, or with none."""
    for name in VARIABLES:
        cli.environment.pop(name, None)
    if key:
        cli.environment["OPENAI_API_KEY"] = key
    return cli


@pytest.fixture(scope="module")
def first(
    new_cli: Any, kernel: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, dict[str, Any], int]]:
    """A recorded run whose server is gone: command line, report, requests that arrived."""
    cli = keyed(new_cli(tmp_path_factory.mktemp("first")))
    server = FakeServer()
    server.respond(engineer(kernel))
    try:
        status, report = cli.json(
            "optimize", "norm.py", "--model", at(server), "--tuner", "builtin", "--max-cost", "1",
            "--record", "calls.jsonl", *SMALL,
        )  # fmt: skip
    finally:
        server.close()
    assert status == 0, report
    yield cli, report, len(server.requests)


def designs(cli: Any, run: str = "last") -> list[tuple[str, str, str]]:
    _, shown = cli.json("show", run)
    return sorted((d["move"], d["source"], json.dumps(d["plan"])) for d in shown["designs"])


def test_a_model_s_kernel_wins_and_the_report_says_what_it_cost(first: Any, kernel: str) -> None:
    cli, report, requests = first
    assert report["outcome"] == "faster"
    assert kernel in [source for _, source, _ in designs(cli)]
    assert report["explanation"].startswith("It reads every row once.")
    (use,) = report["models"]
    assert use["requests"] == requests and use["failed"] == 0
    assert set(use["roles"]) == {"planner", "implementer", "profiler", "explainer"}
    assert use["input_tokens"] == 100 * requests and use["output_tokens"] == 20 * requests
    assert use["cost"] == pytest.approx(requests * (100 * 2 + 20 * 8) / 1e6)
    markdown = (cli.folder / report["bundle"] / "report.md").read_text()
    assert "## Models" in markdown and "gpt-4.1" in markdown


def test_everything_that_was_said_can_be_read_and_no_key(first: Any) -> None:
    cli, _, requests = first
    status, out, _ = cli.run("show", "last", "--calls")
    assert status == 0
    assert out.count("\n--- answer\n") == requests
    assert "=== planner asks openai:gpt-4.1" in out and "You write Pallas kernels" in out
    assert "It reads every row once." in out and "\x1b" not in out
    _, document = cli.json("show", "last", "--calls")
    assert len(document["calls"]) == requests == document["models"][0]["requests"]
    for path in cli.folder.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


def test_a_replay_needs_no_network_and_makes_the_same_designs(
    first: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli, report, _ = first
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    again = maxkernel.optimize(
        cli.folder / "norm.py",
        replay=cli.folder / "calls.jsonl",
        record=tmp_path / "again.jsonl",
        budget=Budget(candidates=4, patience=1),
        settings=Settings(
            cache_dir=cli.environment["MAXKERNEL_CACHE_DIR"], runs_dir=str(tmp_path / "runs")
        ),
    )
    assert again.tunables == report["tunables"]
    assert again.explanation == report["explanation"]
    other = type(cli)(tmp_path, cli.environment | {"MAXKERNEL_RUNS_DIR": str(tmp_path / "runs")})
    assert designs(other) == designs(cli)

    def answers(path: Path) -> list[str]:
        return sorted(json.loads(line)["answer"] for line in path.read_text().splitlines())

    assert answers(tmp_path / "again.jsonl") == answers(cli.folder / "calls.jsonl")


def waited(cli: Any, server: FakeServer, role: str, count: int) -> None:
    """Returns when the server has been asked `count` times in a role."""
    for _ in range(1200):
        if sum(role in request.text for request in list(server.requests)) >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"never asked: {role}")


def test_a_run_that_is_killed_while_a_model_answers_goes_on(
    cli: Any, server: FakeServer, kernel: str
) -> None:
    keyed(cli)
    server.respond(engineer(kernel, seconds=60))
    writes = "You write Pallas kernels"
    process = cli.start("optimize", "norm.py", "--planner", at(server), "--implementer", at(server),
                        "--max-requests", "9", *SMALL)  # fmt: skip
    waited(cli, server, writes, 1)
    stopped = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=40)
    assert process.returncode == 130 and "resume last" in err, out + err
    assert time.monotonic() - stopped < 40, "the answer was waited for"
    process = cli.start("resume", "last")
    waited(cli, server, writes, 2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    server.respond(engineer(kernel))
    status, report = cli.json("resume", "last", "--record", "calls.jsonl")
    assert status == 0, report
    assert kernel in [source for _, source, _ in designs(cli)]
    (use,) = report["models"]
    plans = [r for r in server.requests if "You plan Pallas kernels" in r.text]
    assert len(plans) == len({r.text for r in plans}), "a plan was asked for again"
    assert use["failed"] == 1, "the call that was cancelled counts"
    assert use["requests"] == len(server.requests) - 1, "only the killed call is unknown"
    assert len((cli.folder / "calls.jsonl").read_text().splitlines()) == use["requests"]
    header = sqlite3.connect(next(cli.folder.glob("maxkernel-runs/*/run.sqlite")))
    try:
        assert "gpt-4.1" in str(header.execute("SELECT body FROM header").fetchone()[0])
    finally:
        header.close()


def test_a_budget_of_requests_is_never_exceeded_and_stays_spent(
    cli: Any, server: FakeServer
) -> None:
    keyed(cli)
    status, report = cli.json(
        "optimize", "norm.py", "--planner", at(server), "--max-requests", "1",
        "--budget-candidates", "2",
    )  # fmt: skip
    assert (status, len(server.requests)) == (0, 1), report
    status, report = cli.json("resume", "last", "--max-requests", "2", "--max-evaluations", "3")
    assert len(server.requests) == 2 == report["models"][0]["requests"]


def test_graph_mode_asks_models_and_shows_a_forecast(
    cli: Any, server: FakeServer, kernel: str
) -> None:
    keyed(cli)
    status, _, err = cli.run(
        "optimize", "norm.py", "--mode", "graph", "--planner", at(server), "--implementer",
        at(server), "--max-tokens", "50000", "--record", "calls.jsonl", "--no-memory", *SMALL,
    )  # fmt: skip
    assert status == 0, err
    assert "forecast" in err and "50000 tokens" in err
    assert kernel in [source for _, source, _ in designs(cli)]
    before, asked = designs(cli), len(server.requests)
    keyed(cli, key="")
    status, report = cli.json(
        "optimize", "norm.py", "--mode", "graph", "--replay", "calls.jsonl", *SMALL
    )
    assert (status, len(server.requests)) == (0, asked), report
    assert designs(cli) == before


def test_a_tester_s_inputs_reach_the_judge(cli: Any, server: FakeServer) -> None:
    """What the reference can do is run on the winner; what it cannot do refuses nobody."""
    cases = [
        {"name": "ties", "reason": "equal values", "fills": {"0": "constant"}},
        {"name": "huge", "reason": "squares overflow", "fills": {"0": "constant"}, "scale": 1e30},
    ]
    server.respond(lambda request: Say(json.dumps(cases)))
    status, report = cli.json("optimize", "norm.py", "--tester", at(keyed(cli) and server), *SMALL)
    assert status == 0, report
    assert [case["name"] for case in report["cases"]] == ["ties", "huge"]
    assert len(server.requests) == 1
    trials = {t["name"]: t for t in report["confirmation"]["trials"]}
    assert trials["case: ties"]["passed"] and not trials["case: ties"]["skipped"]
    assert trials["case: huge"]["skipped"], "the reference itself overflows"
    lines = " ".join(item["text"] for item in report["checklist"])
    assert "case: ties" in lines and "case: huge" in lines
    status, found = cli.json("verify", report["bundle"])
    assert status == 0, found


USES = [
    (("--model", "gpt"), 2, "bad model 'gpt'"),
    (("--model", "openai:a", "--model", "builtin"), 2, "not both"),
    (("--model", "openai:gpt-4.1"), 3, "no key for openai:gpt-4.1"),
    (("--model", "http://localhost:1/v1#m", "--max-cost", "1"), 2, "--max-tokens"),
    (("--model", "cli:cat", "--max-tokens", "0"), 2, "more than 0"),
    (("--max-cost", "1"), 2, "no role has one"),
    (("--record", "calls"), 2, "no role has a model"),
    (("--model", "cli:cat", "--max-tokens", "9", "--record", "no/calls"), 2, "cannot record"),
    (("--replay", "norm.py"), 2, "is no recorded traffic"),
    (("--model", f"cli:ask {KEY}", "--max-tokens", "9"), 2, "holds a key"),
]


@pytest.mark.parametrize(("arguments", "status", "said"), USES, ids=lambda v: str(v)[:40])
def test_wrong_models(cli: Any, arguments: tuple[str, ...], status: int, said: str) -> None:
    keyed(cli, key="").environment["SOME_API_KEY"] = KEY
    got, out, err = cli.run("optimize", "norm.py", *arguments)
    assert (got, out) == (status, ""), err
    assert said in err and err.startswith("error: ") and "Traceback" not in err
    assert KEY not in err
    assert not (cli.folder / "maxkernel-runs").exists()


def test_a_missing_library_is_named(cli: Any) -> None:
    blocker = "import sys\n\nclass Block:\n    def find_spec(self, name, path=None, target=None):\n"
    blocker += "        if name == 'pydantic_ai':\n            raise ModuleNotFoundError(name)\n\n"
    cli.write("sitecustomize.py", blocker + "sys.meta_path.insert(0, Block())\n")
    keyed(cli).environment["PYTHONPATH"] = str(cli.folder)
    got, _, err = cli.run("optimize", "norm.py", "--model", "openai:gpt-4.1")
    assert got == 3 and "pydantic_ai" in err and "pip install 'maxkernel[llm]'" in err, err


def test_doctor_knows_who_answers_and_prints_no_key(cli: Any, server: FakeServer) -> None:
    keyed(cli).environment["OPENAI_BASE_URL"] = f"{server.url}/v1"
    server.respond(lambda _: Say("ready"))
    status, out, err = cli.run("doctor", "--probe", "--model", at(server), "--model", "nobody")
    assert status == 3, out + err
    assert "models of openai: key in OPENAI_API_KEY; it answers: 2 models" in out
    assert "models of anthropic: no key in ANTHROPIC_API_KEY" in out
    assert "it answers: ready" in out and "FAIL  model nobody: bad model" in out
    assert KEY not in out + err


def test_docs_are_found_and_read(cli: Any) -> None:
    status, found = cli.json("docs", "dimension", "semantics")
    assert status == 0 and len(found["hits"]) > 2
    id = found["hits"][0]["id"]
    status, out, _ = cli.run("docs", "--read", id)
    assert status == 0 and out.startswith("# ") and len(out) > 100
    assert cli.run("docs", "--read", "nothing")[0] == 2
    assert cli.run("docs")[0] == 2
    assert cli.run("docs", "xyzzyplugh")[0] == 1
