"""What to do next: one small file per policy behind one protocol."""

from __future__ import annotations

from maxkernel.errors import UsageError
from maxkernel.search.policies.base import Policy as Policy
from maxkernel.search.policies.base import Standing as Standing
from maxkernel.search.policies.beam import Beam
from maxkernel.search.policies.best_first import BestFirst
from maxkernel.search.policies.elites import Elites
from maxkernel.search.policies.parallel import Parallel

POLICIES: dict[str, type[Policy]] = {
    "best-first": BestFirst,
    "beam": Beam,
    "elites": Elites,
    "parallel": Parallel,
}
DEFAULT_POLICY = "best-first"


def get_policy(name: str) -> Policy:
    """A fresh policy of that name; raises UsageError with the known names otherwise."""
    kind = POLICIES.get(name)
    if kind is None:
        raise UsageError(f"unknown policy {name!r}; known policies: {', '.join(POLICIES)}")
    return kind()
