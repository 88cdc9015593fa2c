"""Names, editions and published data of the suites, read without importing a task."""

import ast
import re

import pytest

from maxkernel import suites
from maxkernel.errors import UsageError

ALL = [("jaxbench", name) for name in suites.names("jaxbench")] + [
    ("models", name) for name in suites.names("models")
]
ALLOWED_IMPORTS = {"jax", "jax.numpy", "jax.lax", "math", "functools"}


def source(suite, name, edition="hardened"):
    task = suites.load(suite, name, edition)
    assert list(task.files) == [task.entry]
    return task.files[task.entry]


def test_names():
    names = suites.names("jaxbench")
    assert len(names) == len(set(names)) == 50
    assert names[0] == "1p_Flash_Attention"
    assert names[-1] == "50k_Matmul_GELU_Softmax"
    assert [int(re.match(r"\d+", name)[0]) for name in names] == list(range(1, 51))


@pytest.mark.parametrize("text", ["12p", "12P", " 12p_RMSNorm ", "t12p_rmsnorm", "12p_rmsnorm"])
def test_selection(text):
    assert suites.load("jaxbench", text).name == "12p_RMSNorm"


@pytest.mark.parametrize(
    ("text", "close"),
    [("12", "12p_RMSNorm"), ("rmsnorm", "12p_RMSNorm"), ("Flash_Atention", "1p_Fl")],
)
def test_unknown_names_list_close_ones(text, close):
    with pytest.raises(UsageError) as caught:
        suites.load("jaxbench", text)
    assert text in caught.value.message
    assert close in caught.value.advice


def test_unknown_suite_and_edition():
    with pytest.raises(UsageError, match="no suite 'kernels'"):
        suites.names("kernels")
    with pytest.raises(UsageError, match="no edition 'soft'"):
        suites.load("jaxbench", "8p", "soft")
    with pytest.raises(UsageError, match="no edition 'f32'"):
        suites.load("models", suites.names("models")[0], "f32")


@pytest.mark.parametrize(("suite", "name"), ALL)
def test_task_files_are_self_contained_and_documented(suite, name):
    tree = ast.parse(source(suite, name))
    short = name.partition("_")[0]
    assert ast.get_docstring(tree).startswith(f"{short}: ")
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    assert imported <= ALLOWED_IMPORTS
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert defined >= {"reference", "inputs", "check_inputs"}


@pytest.mark.parametrize("name", suites.names("jaxbench"))
def test_editions_differ_in_two_literals(name):
    hardened = source("jaxbench", name).splitlines()
    for edition in ("published", "f32"):
        other = source("jaxbench", name, edition).splitlines()
        changed = [b for a, b in zip(hardened, other, strict=True) if a != b]
        assert changed[0] == f'EDITION = "{edition}"'
        assert all(line.startswith("TOLERANCE = {") for line in changed[1:])
    digests = {suites.load("jaxbench", name, e).digest for e in ("hardened", "published", "f32")}
    assert len(digests) == 3
    assert suites.load("jaxbench", name).digest in digests


def test_tolerances():
    assert suites.tolerance("jaxbench", "1p", "published").atol == 0.01
    two = suites.tolerance("jaxbench", "2p", "f32")
    assert (two.atol, two.rtol) == (0.05, 0.05)
    for suite, name in ALL:
        hardened = suites.tolerance(suite, name)
        assert hardened.atol > 0
        assert 0 < hardened.rtol <= 0.01


def test_published_times():
    flash = suites.published("1p")
    assert (flash.target, flash.xla_ms, flash.pallas_ms) == ("v6e", 22.9762, 6.5106)
    with_pallas = [n for n in suites.names("jaxbench") if suites.published(n).pallas_ms]
    assert [n.partition("_")[0] for n in with_pallas] == [
        *("1p", "2p", "3p", "4p", "6p", "7p", "8p", "11p")
    ]
    times = [suites.published(n).xla_ms for n in suites.names("jaxbench")]
    assert sum(times) == pytest.approx(368.03, abs=0.01)
    zero = [n for n in suites.names("jaxbench") if "all zero" in suites.published(n).caution]
    assert len(zero) == 29
    assert suites.published("w01") is None


def test_verdicts():
    verdicts = [suites.entry("jaxbench", n).soundness for n in suites.names("jaxbench")]
    counts = {v: verdicts.count(v) for v in ("sound", "usable", "weak", "collapses", "broken")}
    assert counts == {"sound": 14, "usable": 16, "weak": 5, "collapses": 2, "broken": 13}
    for name in suites.names("jaxbench"):
        known = suites.entry("jaxbench", name)
        assert (known.soundness == "sound") or known.weakness
