"""What makes a search the same search."""

from __future__ import annotations

import msgspec

from maxkernel.search.policies import DEFAULT_POLICY

SETTINGS = "graph/settings"
"""Key of the step that keeps them."""

LESSONS = "graph/lessons"
"""Key of the step that keeps what was known of moves when the search began."""


class SearchSettings(msgspec.Struct, frozen=True):
    """A search with the same settings, budget and built-in team makes the same graph."""

    policy: str = DEFAULT_POLICY
    seed: int = 0
    width: int = 4
    """Decisions that are under way at once. More keep more workers busy; fewer know more."""
