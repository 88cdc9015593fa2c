"""Names and order do not matter: a rewritten but equal reference gets the same plans."""

from collections.abc import Iterator

import pytest
from benchmarks.rewritings import REWRITINGS, rewritten
from benchmarks.rewritten import NAMES, VMAPPED, examine

from maxkernel import suites
from maxkernel.api import Session, open_session
from maxkernel.tasks import task_from_text


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with open_session("v6e", use_cache=False) as opened:
        yield opened


@pytest.mark.parametrize("name", ["12p", "40k", "2p"])
def test_rewritten_references_are_planned_alike(session: Session, name: str) -> None:
    task = suites.load("jaxbench", name)
    texts = {rewritten(task, change).digest for change in REWRITINGS.values()}
    assert len(texts) == len(REWRITINGS), "every rewriting changes the text"
    found = examine(session, task)
    assert {*found.answers, *found.skipped} == set(NAMES)
    assert (VMAPPED in found.skipped) == (name == "40k"), "its result begins with columns"
    assert found.differences == {}


CENTRED = """
import jax
import jax.numpy as jnp

def reference(x):
    \"\"\"x: (B, N). Returns (B, N).\"\"\"
    return x - jnp.mean(x, axis=0)

def inputs(key):
    return (jax.random.normal(key, (512, 256)),)

def check_inputs(key):
    return (jax.random.normal(key, (24, 256)),)
"""


def test_a_map_that_is_not_equal_does_not_count(session: Session) -> None:
    plain = suites.load("jaxbench", "12p")
    task = task_from_text("centred", plain.format, "centred.py", {"centred.py": CENTRED}, "")
    found = examine(session, task, (VMAPPED,))
    assert found.skipped == {VMAPPED: "not equal"} and not found.answers
