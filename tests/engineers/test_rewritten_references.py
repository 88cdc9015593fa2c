"""Names and order do not matter: a rewritten but equal reference gets the same plans."""

from collections.abc import Iterator

import pytest
from benchmarks.rewritten import REWRITINGS, differences, rewritten

from maxkernel import suites
from maxkernel.api import Session, open_session


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with open_session("v6e", use_cache=False) as opened:
        yield opened


@pytest.mark.parametrize("name", ["12p", "40k", "2p"])
def test_rewritten_references_are_planned_alike(session: Session, name: str) -> None:
    task = suites.load("jaxbench", name)
    texts = {rewritten(task, change).digest for change in REWRITINGS.values()}
    assert len(texts) == len(REWRITINGS), "every rewriting changes the text"
    assert differences(session, task) == {}
