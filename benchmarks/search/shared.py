"""A judge that several searches of one task share: it judges each program once."""

from __future__ import annotations

import hashlib
import json

import msgspec

from maxkernel.api.session import Session
from maxkernel.judge import Cache, Judge, Prepared
from maxkernel.judge.cache import STAGE_VERSIONS
from maxkernel.judge.judge import OnStage
from maxkernel.types import Artifact, Candidate, Confirmation, Evaluation, Failure, Numerics


class SharedJudge(Judge):
    """Answers a program that it has judged from a cache; every search still pays for it.

    A program's time and its verdict do not depend on who proposed it, so a comparison of
    searches costs the union of what they propose. A fault of the machine is not remembered.
    """

    def __init__(self, session: Session, cache: Cache) -> None:
        super().__init__(session.executor, session.target, session.settings, cache)
        self._answers = cache
        self.asked = 0
        """Evaluations that were asked for."""
        self.judged = 0
        """Those that were not remembered."""

    def evaluate(
        self,
        prepared: Prepared,
        candidate: Candidate,
        on_stage: OnStage = lambda _: None,
        captured: Artifact | Failure | None = None,
        again: Numerics | None = None,
    ) -> Evaluation:
        """As the judge; from memory where the same program of the same task was judged."""
        self.asked += 1
        artifact = captured if captured is not None else self.capture(prepared, candidate)[0]
        if isinstance(artifact, Failure):
            return super().evaluate(prepared, candidate, on_stage, artifact, again)
        key = self._key("evaluation", prepared, artifact)
        known = self._answers.get(key, Evaluation)
        if known is not None:
            return msgspec.structs.replace(known, candidate=candidate, cached=("artifact",))
        self.judged += 1
        found = super().evaluate(prepared, candidate, on_stage, artifact, again)
        if found.failure is None or found.failure.kind != "environment":
            self._answers.put(key, found)
        return found

    def confirm(
        self,
        prepared: Prepared,
        candidate: Candidate,
        captured: Artifact | Failure | None = None,
    ) -> Confirmation:
        """As the judge, once per program."""
        artifact = captured if captured is not None else self.capture(prepared, candidate)[0]
        if isinstance(artifact, Failure):
            return super().confirm(prepared, candidate, artifact)
        key = self._key("confirmation", prepared, artifact)
        known = self._answers.get(key, Confirmation)
        if known is None:
            known = super().confirm(prepared, candidate, artifact)
            self._answers.put(key, known)
        return known

    def _key(self, what: str, prepared: Prepared, artifact: Artifact) -> str:
        parts = [
            what, prepared.task.digest, self.target.name, artifact.digest, self.versions,
            STAGE_VERSIONS,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
