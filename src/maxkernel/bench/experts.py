"""The bar to clear: the suite's own expert kernel, judged once per task text, target and clock."""

from __future__ import annotations

from contextlib import closing

import msgspec

from maxkernel.api import Session
from maxkernel.bench.settings import stages
from maxkernel.judge import Cache, Prepared, stage_key
from maxkernel.search import Progress
from maxkernel.types import Candidate, Time


class Expert(msgspec.Struct, frozen=True):
    """The judge's word on an expert kernel with its default constants."""

    time: Time | None = None
    problem: str = ""
    """Why it was not accepted."""
    doubt: str = ""
    """What the clock had to assume about data."""


def judge_expert(
    session: Session, prepared: Prepared, candidate: Candidate, progress: Progress
) -> Expert:
    """What the judge finds about an expert kernel; remembered in the cache folder by content.

    A fault of the machine is an answer for now and is not remembered.
    """
    key = stage_key(
        "compile",
        "expert",
        prepared.task.digest,
        candidate.digest,
        prepared.target.name,
        session.judge.versions,
        stages(),
    )
    with closing(Cache(session.settings.cache_path)) as cache:
        known = cache.get(key, Expert)
        if known is not None:
            return known
        evaluation = session.judge.evaluate(
            prepared, candidate, lambda stage: progress.stage(f"expert {stage}", None)
        )
        failure = evaluation.failure
        if failure is not None:
            text = f"{failure.stage}/{failure.kind}: {failure.message}".splitlines()[0]
            found = Expert(problem=text)
        else:
            verdict = session.judge.verdict(prepared, evaluation)
            found = Expert(evaluation.time, doubt=verdict.doubt)
        if failure is None or failure.kind not in ("environment", "timeout", "memory"):
            cache.put(key, found)
        return found
