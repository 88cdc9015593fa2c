"""Transposes: what they take beyond their schedule, and where the cycles are told."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from schedule_texts import folder_of, schedule

from maxkernel.schedule import simulate
from maxkernel.targets import TARGETS
from maxkernel.types import OpTime

HLO = """HloModule jit_f, is_scheduled=true

ENTRY %main (x: f32[128,128]) -> f32[128,128] {
  ROOT %fusion = f32[128,128]{1,0:T(8,128)} fusion(%x), kind=kLoop, calls=%computation
}
"""
TOP = schedule("%1 = inlined_call /* %fusion = fusion(%x) */", "")


def transposes(
    starts: Iterable[int], dtype: str, unit: str = "xlu0", later: int = 0
) -> dict[int, list[str]]:
    """Instructions by cycle, as a compiler puts them: a register every 4 cycles, read 64 later."""
    found: dict[int, list[str]] = {}
    registers, width = (16, 128) if dtype == "b32" else (8, 128)
    results = width // (8 if dtype == "b32" else 16)
    for start in starts:
        for number in range(registers):
            part = {0: "start", registers - 1: "end"}.get(number, "cont")
            item = f"%7 = vxpose.{unit}.{dtype}.{part} [{number + 1}/{registers}] "
            found.setdefault(start + 4 * number, []).append(
                f"{item}/*vx=*/%v8_v1, /*width=*/{width}"
            )
        first = start + 4 * registers + 60 + later
        for number in range(results):
            found.setdefault(first + 4 * number, []).append(f"%v9_v2 = vpop.trf.{unit}")
    return found


def time_of(path: Path, items: dict[int, list[str]], target: str = "v6e") -> OpTime:
    bundles = [" ;; ".join(items.get(at, ())) for at in range(max(items) + 80)]
    folder = folder_of(path, TOP, HLO, fusion=schedule(*bundles))
    op = next(op for op in simulate(folder, TARGETS[target]).ops if op.name == "fusion")
    assert op.cycles >= len(bundles)
    assert op.units["xlu"] == sum("vxpose" in item for line in items.values() for item in line)
    return op


def extra(path: Path, items: dict[int, list[str]], target: str = "v6e") -> float:
    """Cycles beyond one for each bundle; they are told in the regions, as cycles without issue."""
    op = time_of(path, items, target)
    more = op.cycles - op.bundles
    assert sum(region.cycles for region in op.regions) == op.cycles
    filled = sum(1 for line in items.values() if line)
    assert sum(region.idle_cycles for region in op.regions) == op.cycles - filled
    return more


@pytest.mark.parametrize(
    ("target", "cycles"), [("v6e", 16 * 4), ("v5e", 0), ("v7x", 0)], ids=["v6e", "v5e", "v7x"]
)
def test_the_result_of_one_comes_later_on_v6e(tmp_path: Path, target: str, cycles: int) -> None:
    assert extra(tmp_path, transposes([0], "b32"), target) == cycles


def test_one_after_another_runs_at_half_the_pace(tmp_path: Path) -> None:
    assert extra(tmp_path, transposes(range(0, 640, 64), "b32")) == 10 * 64


def test_a_schedule_that_leaves_the_unit_its_time_loses_nothing(tmp_path: Path) -> None:
    assert extra(tmp_path, transposes(range(0, 1280, 128), "b32", later=64)) == 0


def test_two_units_work_side_by_side(tmp_path: Path) -> None:
    items = transposes(range(0, 640, 64), "b32")
    for at, line in transposes(range(0, 640, 64), "b32", "xlu1").items():
        items[at] = items[at] + line
    assert extra(tmp_path, items) == 10 * 64


def test_packed_ones_take_what_the_schedule_says(tmp_path: Path) -> None:
    assert extra(tmp_path, transposes(range(0, 640, 64), "c.b16")) == 0
