"""A schedule that cannot be read: the roofline bound stands in, says so, and claims nothing."""

from types import SimpleNamespace
from typing import cast

import msgspec

from maxkernel.judge.bound import Roofline
from maxkernel.judge.prepared import Prepared
from maxkernel.judge.timing import doubtful_baseline, time_of, too_fast, verdict_of
from maxkernel.types import Candidate, Evaluation, OpTime, ProgramTime
from maxkernel.types.messages import CompileReply

BOUND = Roofline(compute=1e-4, memory=2e-4, floor=2e-4)
PROGRAM = ProgramTime("v6e", 1e-3, 1.75e6, (OpTime("k", "kernel", 1, 1e-3, 1.75e6, 0.0),), 1.75e9)


def compiled(program: ProgramTime | None) -> CompileReply:
    problem = "" if program else "k: the text ends inside bundle 0x12"
    return CompileReply(program, {}, 1.0, 0.1, "jax 1, libtpu 2", schedule_problem=problem)


def test_without_a_schedule_the_time_is_the_bound() -> None:
    time = time_of(compiled(None), BOUND)
    assert (time.provenance, time.seconds, time.expected_error) == ("bound", 2e-4, None)
    assert too_fast(time, BOUND) is None
    assert time_of(compiled(PROGRAM), BOUND).provenance == "simulated"


def test_a_bound_is_never_compared_with_a_simulated_time_and_claims_nothing() -> None:
    for baseline in (None, PROGRAM):
        prepared = SimpleNamespace(
            baseline=time_of(compiled(baseline), BOUND),
            baseline_program=baseline,
            bound=BOUND,
            misfit="",
        )
        evaluation = Evaluation(
            Candidate("source"), "task", "v6e", "none", time=time_of(compiled(None), BOUND)
        )
        verdict = verdict_of(cast(Prepared, prepared), evaluation)
        assert not verdict.faster
        assert verdict.speedup is None or verdict.baseline.provenance == "bound"


def test_a_baseline_below_its_bytes_time_is_told() -> None:
    for seconds, told in ((1e-3, False), (1.97e-4, False), (1.9e-4, True)):
        program = msgspec.structs.replace(PROGRAM, seconds=seconds)
        time = time_of(compiled(program), BOUND)
        prepared = SimpleNamespace(baseline=time, baseline_program=program, bound=BOUND)
        text = doubtful_baseline(cast(Prepared, prepared))
        assert bool(text) is told
        assert not told or ("190.0 us" in text and "200.0 us" in text)
