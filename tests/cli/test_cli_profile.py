"""`maxkernel profile`: words, data and a picture that agree with each other."""

import html.parser
import json
import re
from typing import Any

import pytest

from maxkernel.cli.profile import Subject, no_profile
from maxkernel.errors import TaskError


@pytest.fixture(scope="module")
def shared(new_cli: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return new_cli(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def found(shared: Any) -> dict[str, Any]:
    status, document = shared.json("profile", "norm.py", "kernel.py", "--html", "one.html")
    assert status == 0
    return document


@pytest.fixture(scope="module")
def beside(shared: Any) -> str:
    status, out, err = shared.run("profile", "norm.py", "--compare", "kernel.py",
                                  "--html", "two.html")  # fmt: skip
    assert status == 0, err
    return out


class Page(html.parser.HTMLParser):
    """Collects tags, what they would load, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.script = ""
        self.feed(text)
        data = re.search(r"^const data = (.*);$", self.script, re.MULTILINE)
        assert data is not None
        self.data = json.loads(data[1])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.loads += [f"{name}={value}" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.script += data


def test_the_parts_of_a_profile_add_up(found: dict[str, Any]) -> None:
    program, profile = found["program"], found["profile"]
    assert sum(op["cycles"] for op in program["ops"]) == pytest.approx(program["cycles"])
    kernel = next(op for op in program["ops"] if op["kind"] == "kernel")
    assert sum(r["cycles"] for r in kernel["regions"]) == pytest.approx(kernel["cycles"])
    shown = next(op for op in profile["ops"] if op["kind"] == "kernel")
    assert sum(r["share"] for r in shown["regions"]) == pytest.approx(1)
    assert sum(op["share"] for op in profile["ops"]) == pytest.approx(1, abs=0.01)
    assert program["seconds"] > found["bound"]["memory"]
    moved = 2 * 16384 * 1024 * 2
    assert shown["moved_bytes"] == pytest.approx(moved, rel=0.01)
    assert 0 < shown["vmem_bytes"] < profile["vmem_bytes"]


def test_a_profile_names_lines_limits_and_gains(found: dict[str, Any], shared: Any) -> None:
    profile = found["profile"]
    limit = profile["bottleneck"]
    assert limit["limit"] in ("hbm", "vector", "special", "load_store", "issue", "overhead")
    assert 0 <= limit["gain"] <= 1 - profile["bound_seconds"] / profile["seconds"] + 1e-9
    kernel = next(op for op in profile["ops"] if op["kind"] == "kernel")
    text = (shared.folder / "kernel.py").read_text().splitlines()
    hot = max(kernel["lines"], key=lambda line: line["cycles"])
    assert hot["file"] == "kernel.py" and "x" in text[hot["line"] - 1]
    steps = [r for r in kernel["regions"] if r["kind"] == "step"]
    assert steps and all(r["where"].startswith("kernel.py:") for r in steps)
    assert len(profile["digest"]) <= 60
    assert any(text[hot["line"] - 1].strip()[:30] in line for line in profile["digest"])


def test_the_picture_is_one_file_with_the_same_numbers(found: dict[str, Any], shared: Any) -> None:
    text = (shared.folder / "one.html").read_text()
    page = Page(text)
    assert page.loads == [] and page.open.count("script") == 1
    rest = text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|\bimport\(|fetch\(|XMLHttp|@import", rest)
    (profile,) = page.data["profiles"]
    assert profile["seconds"] == found["program"]["seconds"]
    kernel = next(op for op in profile["ops"] if op["kind"] == "kernel")
    assert {event["kind"] for event in kernel["trace"]} >= {"in", "out"}
    points = {point["name"]: point for point in page.data["roof"]["points"]}
    assert set(points) == {"kernel.py", "XLA's program"}
    ridge = page.data["roof"]
    for point in points.values():
        roof = min(ridge["peak"], ridge["bandwidth"] * point["intensity"])
        assert 0 < point["rate"] <= roof


def test_side_by_side(beside: str, shared: Any) -> None:
    assert "kernel.py beside XLA's program on TPU v6e" in beside
    assert re.search(r"kernel\.py is [\d.]+x (faster|slower) than XLA's program, both simulated",
                     beside)  # fmt: skip
    assert "bottleneck" in beside and "vector registers" in beside
    assert len(Page((shared.folder / "two.html").read_text()).data["profiles"]) == 2


def test_the_baseline_alone(shared: Any) -> None:
    status, out, _ = shared.run("profile", "norm.py")
    assert status == 0
    assert out.startswith("XLA's program on TPU v6e") and "roofline" in out
    assert "bottleneck:" in out and "Traceback" not in out


USES = [
    (("profile", "norm.py", "kernel.py", "kernel.py"), "--compare"),
    (("profile", "norm.py", "--compare"), "one or two kernels"),
    (("profile", "norm.py", "kernel.py", "--target", "v9"), "v6e"),
    (("profile", "norm.py", "--html", "nowhere/page.html"), "nowhere"),
    (("profile", "norm.py", "none.py"), "does not exist"),
]


@pytest.mark.parametrize(("arguments", "said"), USES, ids=lambda v: str(v)[-40:])
def test_wrong_use(shared: Any, arguments: tuple[str, ...], said: str) -> None:
    status, out, err = shared.run(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and said in err and "Traceback" not in err


def test_a_kernel_that_does_not_compile_says_where(shared: Any) -> None:
    text = (shared.folder / "kernel.py").read_text()
    shared.write("broken.py", text.replace("jnp.mean(x * x", "jnp.meen(x * x"))
    status, out, err = shared.run("profile", "norm.py", "broken.py")
    assert status == 1 and "Traceback" not in out + err
    assert "broken.py has no profile" in out and "meen" in out


def test_a_schedule_that_cannot_be_read_says_what_was_seen() -> None:
    subject = Subject("kernel.py", "", None, "k: the text ends inside bundle 0x12")
    with pytest.raises(TaskError) as error:
        no_profile(subject, as_json=False)
    assert "kernel.py" in error.value.message and "ends inside bundle 0x12" in error.value.message
    assert error.value.advice
