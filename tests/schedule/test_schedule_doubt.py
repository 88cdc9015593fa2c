"""When a simulated time must not carry a claim: what steers it was assumed."""

import pytest

from maxkernel.schedule import unsure
from maxkernel.types import OpTime, ProgramTime

OPS = (
    OpTime("gather_fusion", "xla", 1, 1e-6, 1750, 0),
    OpTime("ragged-dot-none", "xla", 1, 1e-6, 1750, 0),
    OpTime("paged", "kernel", 1, 1e-6, 1750, 0),
)
TABLE = "a table in scalar memory is unknown and read as zeros"


@pytest.mark.parametrize(
    ("note", "doubted"),
    [
        (f"gather_fusion: {TABLE}", False),
        (f"ragged-dot-none: {TABLE}", True),
        (f"paged: {TABLE}", True),
        ("paged: operand 0 is unknown", True),
        ("gather_fusion: the branch at 0x12 depends on data; taken as for zero", True),
        ("paged: later calls taken to last as long as the first", False),
    ],
)
def test_what_steers_is_doubted(note: str, doubted: bool) -> None:
    program = ProgramTime("v6e", 3e-6, 5250, OPS, 1.75e9, (note,))
    assert bool(unsure(program)) is doubted
