"""One budget for many searches: fair at first, then to where gains are coming."""

from __future__ import annotations

from maxkernel.search.shares import SLICE, Share, next_share


def spend(shares: list[Share], budget: int, gains: dict[str, float]) -> dict[str, int]:
    """Plays a shared budget; `gains`: factor by which a slice shortens a search's best time."""
    while (turn := next_share(shares, budget - sum(s.spent for s in shares))) is not None:
        share, more = turn
        best = (share.best or 1.0) * (gains[share.name] if share.slices else 1.0)
        share.report(share.spent + more, best, over=False)
    return {s.name: s.spent for s in shares}


def test_every_search_has_a_turn_before_any_has_two() -> None:
    shares = [Share(n) for n in "abcd"]
    spent = spend(shares, 4 * SLICE, dict.fromkeys("abcd", 0.5))
    assert set(spent.values()) == {SLICE}


def test_a_small_budget_is_still_fair() -> None:
    spent = spend([Share(n) for n in "abcd"], 10, dict.fromkeys("abcd", 1.0))
    assert min(spent.values()) >= 2 and sum(spent.values()) == 10


def test_the_rest_goes_where_gains_come() -> None:
    spent = spend([Share(n) for n in "abc"], 20 * SLICE, {"a": 1.0, "b": 0.8, "c": 1.0})
    assert spent["b"] > 0.6 * 20 * SLICE
    assert spent["a"] >= SLICE and spent["c"] >= SLICE


def test_what_is_over_gets_no_more() -> None:
    done, going = Share("done", over=True), Share("going")
    assert next_share([done], 10) is None
    turn = next_share([done, going], 10)
    assert turn is not None and turn[0] is going
    assert next_share([going], 0) is None
