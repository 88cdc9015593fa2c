"""The margin marks lines by the cycles that the compiler's own lines account for."""

from maxkernel.types import LineTime, OpTime, ProgramTime
from maxkernel.web.views.marks import marks_by_cycles


def test_lines_are_marked_by_their_share_of_the_kernels() -> None:
    lines = (
        LineTime("kernel.py", 4, 300.0, 0.0, {"mxu": 90, "load": 40}),
        LineTime("kernel.py", 9, 80.0, 60.0, {"scalar": 5}),
        LineTime("kernel.py", 12, 2.0, 0.0, {"valu": 1}),
        LineTime("nn.py", 7, 500.0, 0.0, {"valu": 1}),
    )
    kernel = OpTime("k.1", "kernel", 1, 1e-6, 1000.0, 60.0, lines=lines)
    outside = OpTime("copy.2", "xla", 1, 1e-6, 9000.0, 0.0)
    found = marks_by_cycles(ProgramTime("v6e", 1e-5, 1e4, (outside, kernel), 1e9))
    assert {line: mark.heat for line, mark in found.items()} == {4: 3, 9: 2, 12: 1}
    assert found[4].label == "30%" and "matrix unit" in found[4].title
    assert "75% of them wait" in found[9].title
