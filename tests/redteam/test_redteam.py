"""No cheat is accepted, with the source gate or without it; no honest twin is refused."""

import os
from collections import Counter

import pytest
from redteam_court import Case, Court, corpus, said

CASES = corpus()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_verdict_is_the_right_one(court: Court, case: Case) -> None:
    failure = court.gated(case)
    assert said(failure) == case.verdict, failure
    if case.bypassed != case.verdict:
        failure = court.bypassed(case)
        assert said(failure) == case.bypassed, failure


def test_the_corpus_is_whole() -> None:
    cheats = [case for case in CASES if not case.honest]
    assert len(cheats) >= 60
    assert all(case.verdict.startswith("refused ") for case in cheats)
    assert all(case.bypassed.startswith("refused ") for case in cheats)
    assert all(case.verdict == "accepted" for case in CASES if case.honest)
    honest = Counter(case.path.parent.name for case in CASES if case.honest)
    assert set(honest) == {case.path.parent.name for case in CASES}, "every class has a twin"


def test_nothing_is_left_behind(court: Court) -> None:
    """Runs last: no more workers than there should be, and no file of an attack."""
    marks = ("/tmp/owned", "/tmp/reply", "/dev/shm/full")
    assert not [mark for mark in marks if os.path.lexists(mark)]
    assert len(court.executor.pids) <= 3
