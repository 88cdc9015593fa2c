"""Seeds are shared for a while and turns are taken, so that every distribution comes up."""

from types import SimpleNamespace
from typing import Any

from maxkernel.judge.inputs import USES, Rota, name_of, repeated
from maxkernel.types import DISTRIBUTIONS, InputCase, Numerics, Trial

CASE = InputCase("ties", "equal values", {0: "constant"})
PREPARED: Any = SimpleNamespace(task=SimpleNamespace(digest="d"), cases=(CASE,))


def test_one_in_turn_and_all_in_the_end() -> None:
    rota = Rota()
    drawn = [rota.next(PREPARED) for _ in range(20 * USES)]
    assert len({inputs.seed for inputs in drawn}) == 20
    names = [[*i.distributions, *map(name_of, i.cases)] for i in drawn]
    assert all(len(one) == 1 for one in names)
    assert {one for (one,) in names} == {*DISTRIBUTIONS, "case: ties"}


def test_what_tells_nothing_is_not_tried_again() -> None:
    rota = Rota()
    rota.learn(PREPARED, [Trial(name, 1, skipped="no") for name in DISTRIBUTIONS])
    assert all(rota.next(PREPARED).cases == (CASE,) for _ in range(3 * USES))
    shares = [rota.share(PREPARED, number, 3) for number in range(3)]
    assert {d for share in shares for d in share.distributions} == set(DISTRIBUTIONS)
    assert len({share.seed for share in shares}) == 3, "winners are tried on all"
    rota.learn(PREPARED, [Trial("case: ties", 1, skipped="no")])
    assert rota.next(PREPARED).cases == ()


def test_a_check_is_repeated_on_its_inputs() -> None:
    trials = (Trial("large", 7, passed=True), Trial("case: ties", 7, skipped="no"))
    again = repeated(PREPARED, Numerics((), 7, "float64", True, trials=trials))
    assert (again.seed, again.distributions, again.cases) == (7, ("large",), (CASE,))
