"""Static rules and the roofline on hand-made facts."""

from types import SimpleNamespace

import msgspec
import pytest

from maxkernel.judge.bound import Roofline, roofline
from maxkernel.judge.checklist import checklist
from maxkernel.judge.rules import check_rules, check_share, pallas_share
from maxkernel.judge.timing import too_fast
from maxkernel.targets import get_target
from maxkernel.types import (
    ArraySpec,
    ArtifactFacts,
    Candidate,
    Draw,
    Evaluation,
    Graph,
    Node,
    PallasCall,
    TaskInfo,
    Time,
    Tolerance,
    Value,
)

X = ArraySpec((1024, 1024), "bfloat16")
TABLE = ArraySpec((8, 1024), "bfloat16")


def info() -> TaskInfo:
    """y = x + gather(table): the whole of x has to be read, the table perhaps not."""
    values = tuple(Value(s.shape, s.dtype) for s in (X, TABLE, X, X))
    nodes = (Node("gather", (1,), (2,)), Node("add", (0, 2), (3,)))
    return TaskInfo(
        task="d",
        input_names=("x", "table"),
        inputs=(X, TABLE),
        outputs=(X,),
        check_inputs=(X, TABLE),
        check_outputs=(X,),
        statics={},
        check_statics={},
        tolerance=Tolerance(1e-2, 1e-2),
        graph=Graph(values, (0, 1), (3,), nodes),
        flops=2e9,
        io_bytes=2.0 * (2 * X.size + TABLE.size),
        reference_tpu=b"",
        least_bytes=4.0 * X.size,
    )


CALL = PallasCall("k", (8,))
GOOD = ArtifactFacts(pallas_calls=(CALL,), outputs=(X,), check_outputs=(X,))


def test_a_good_program_breaks_no_rule() -> None:
    assert check_rules(info(), GOOD) is None


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ({"outputs": ()}, "output_spec", "0 outputs where the reference has 1"),
        ({"outputs": (ArraySpec((1024, 1024), "float32"),)}, "output_spec", "float32"),
        ({"check_outputs": (TABLE,)}, "output_spec", "check size"),
        ({"pallas_calls": ()}, "no_pallas", "no Pallas kernel"),
        (
            {"pallas_calls": (msgspec.structs.replace(CALL, reaches_output=False),)},
            "no_pallas",
            "dropped",
        ),
        (
            {"pallas_calls": (CALL, msgspec.structs.replace(CALL, interpret=True))},
            "interpret",
            "interpret mode",
        ),
        ({"forbidden": ("pure_callback",)}, "callback", "pure_callback"),
        ({"constant_bytes": 1 << 20}, "constants", "1048576 bytes"),
    ],
)
def test_each_rule(change: dict[str, object], kind: str, said: str) -> None:
    failure = check_rules(info(), msgspec.structs.replace(GOOD, **change))
    assert failure is not None
    assert (failure.stage, failure.kind) == ("rules", kind)
    assert said in failure.message
    assert failure.advice


def test_roofline_of_a_memory_bound_task() -> None:
    target = get_target("v6e")
    bound = roofline(info(), target)
    assert bound.limit == "memory"
    assert bound.time.seconds == pytest.approx((4 * X.size + 2 * TABLE.size) / 1.64e12)
    assert bound.compute == pytest.approx(2e9 / 9.2e14)
    assert bound.floor == pytest.approx(4 * X.size / 1.64e12)


def test_faster_than_the_floor_is_refused() -> None:
    bound = roofline(info(), get_target("v6e"))
    failure = too_fast(Time(bound.floor * 0.9, "simulated"), bound)
    assert failure is not None
    assert failure.kind == "too_fast"
    assert too_fast(Time(bound.floor, "simulated"), bound) is None


def test_donated_inputs_are_refused() -> None:
    failure = check_rules(info(), msgspec.structs.replace(GOOD, donated=(1,)))
    assert failure is not None and failure.kind == "hazard"
    assert "input 1" in failure.message


def test_a_crumb_of_pallas_is_a_decoy_and_a_fair_share_is_not() -> None:
    target = get_target("v6e")
    assert check_share(GOOD, target) is None, "nothing is known of its work"
    fair = msgspec.structs.replace(GOOD, bytes_inside=1e8, bytes_outside=5e8)
    assert pallas_share(fair, target) == pytest.approx(1 / 6)
    assert check_share(fair, target) is None
    crumb = msgspec.structs.replace(fair, bytes_inside=1e6)
    failure = check_share(crumb, target)
    assert failure is not None and failure.kind == "decoy"
    product = msgspec.structs.replace(crumb, bytes_outside=0.0, flops_outside=1e12)
    assert check_share(product, target) is not None


def test_the_times_behind_a_mean_are_told() -> None:
    time = Time(2e-6, "simulated", 0.02, (Draw(1, 1.5e-6), Draw(2, 2.5e-6)))
    evaluation = Evaluation(Candidate("", {}), "task", "v6e", "none", time=time)
    prepared = SimpleNamespace(lint=SimpleNamespace(holes=()))
    (line,) = [i.text for i in checklist(prepared, evaluation, None) if "seed 1" in i.text]
    assert "1.5 us (seed 1), 2.5 us (seed 2); ±25 %" in line


def test_a_kernel_that_beats_the_bound_is_measured_against_the_floor():
    bound = Roofline(compute=4.0, memory=1.0, floor=0.5)
    assert bound.reached(4.1, 0.97)
    assert not bound.reached(5.0, 0.97)
    assert not bound.reached(3.0, 0.97), "it skips work: the bound says nothing of it"
    assert bound.reached(0.51, 0.97)
