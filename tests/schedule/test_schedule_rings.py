"""Remainders of older compilers, which do not mark them: what picks a sync flag counts a ring."""

from pathlib import Path

import pytest
from schedule_texts import counted_loop, folder_of, schedule

from maxkernel.schedule import simulate
from maxkernel.schedule.constants import clock_of
from maxkernel.schedule.rings import Rings
from maxkernel.schedule.text import parse_program
from maxkernel.targets import TARGETS

V6E = TARGETS["v6e"]
PICKS = (
    "%10 = sdivrem.u32 %s2_s0, 3",
    "%s11_s4 = spop.drf %10",
    "%s12_s5 = scalar_lea.sflag [#allocation2], %s11_s4",
)


def test_a_division_that_picks_a_flag_asks_for_the_remainder() -> None:
    text = schedule(
        "%s2_s0 = smov 7",
        *PICKS,
        "%20 = sdivrem.u32 %s2_s0, 3",
        "%s21_s6 = spop.drf %20",
        "%30 = sdivrem.u32 %s2_s0, 5",
        "%s31_s6 = spop.drf %30",
        "%40 = sdivrem.u32 %s2_s0, 7 /* kRem */",
        "%s41_s6 = spop.drf %40",
    )
    program = parse_program(text, "rings")
    rings = Rings(program)
    divisions = [item for bundle in program.bundles for item in bundle.instructions
                 if item.op == "sdivrem.u32"]  # fmt: skip
    assert [rings.is_remainder(item) for item in divisions] == [True, True, False, True]


def test_a_ring_of_three_flags_is_used_again(tmp_path: Path) -> None:
    """Nine copies on three flags: each of them has got three when the loop ends."""
    granules = 2**20 // clock_of(V6E).granule
    copy = (
        "%13 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s1_s9, "
        f"/*size_in_granules=*/{granules}, /*vmem=*/[#allocation6], /*dst_syncflagno=*/%s12_s5"
    )
    text = schedule(
        "%s1_s9 = scalar_parameter_address 0",
        *counted_loop(9, *PICKS, copy)[:-1],
        "| End region 9",
        f"%6 = dma.done.wait [#allocation2 + $0x2], {3 * granules}",
        "",
    ).replace("target bundleno = 1 (0x1)", "target bundleno = 2 (0x2)")
    program = simulate(folder_of(tmp_path, text), V6E)
    clock = clock_of(V6E)
    assert program.seconds == pytest.approx(9 * 2**20 / clock.bandwidth + clock.latency, rel=0.05)
