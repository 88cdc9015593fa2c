"""An input that the execution before has fetched: its bytes are moved once per execution too."""

import subprocess
import sys
from pathlib import Path

import pytest
from schedule_texts import folder_of, schedule

from maxkernel.schedule import simulate
from maxkernel.schedule.constants import clock_of
from maxkernel.targets import TARGETS
from maxkernel.types import ProgramTime

SCRIPT = Path(__file__).parent / "dump_programs.py"
MIB = 2**20
HLO = """HloModule jit_f, is_scheduled=true

ENTRY %main (x: f32[2,1024,1024], y: f32[2,1024,1024]) -> f32[2,1024,1024] {
  %x = f32[2,1024,1024]{2,1,0:T(8,128)} parameter(0)
  %copy-start = (f32[2,1024,1024]{2,1,0:T(8,128)S(1)}, f32[2,1024,1024]{2,1,0:T(8,128)}, \
u32[]{:S(2)}) copy-start(%x), cross_program_prefetch_index=0
}
"""


def prefetching(path: Path, target: str, work: int, ahead: bool = True) -> ProgramTime:
    """A program that reads 8 MiB, works for `work` cycles, and had 8 MiB fetched before."""
    chip = TARGETS[target]
    granules = 8 * MIB // clock_of(chip).granule
    check = "BoundsCheck 0 [deref of %s2] for %4 = dma.hbm_to_vmem\nhlo: copy-start\n"
    text = schedule(
        "%s1_s0 = scalar_parameter_address 0  ;;  %3 = vsyncpa [#allocation5], 0",
        f"%9 = shalt.err (!%p1_p0) /* {check} */",
        "%4 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s1_s0, /*size_in_granules=*/0, "
        "/*vmem=*/[#allocation6], /*dst_syncflagno=*/[#allocation5]",
        "%5 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s1_s0, "
        f"/*size_in_granules=*/{granules}, /*vmem=*/[#allocation6], "
        "/*dst_syncflagno=*/[#allocation5]",
        *[""] * work,
        f"%6 = dma.done.wait [#allocation5], {granules}",
        "",
    )
    return simulate(folder_of(path, text, HLO if ahead else ""), chip)


@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_a_program_that_only_reads_pays_for_what_it_prefetches(tmp_path: Path, target: str) -> None:
    with_one = prefetching(tmp_path / "a", target, 10)
    without = prefetching(tmp_path / "b", target, 10, ahead=False)
    clock = clock_of(TARGETS[target])
    assert with_one.seconds == pytest.approx(16 * MIB / clock.bandwidth, rel=0.01)
    assert without.seconds == pytest.approx(8 * MIB / clock.bandwidth + clock.latency, rel=0.01)
    copy = next(op for op in with_one.ops if op.name == "copy-start")
    assert copy.read_bytes == 8 * MIB
    assert copy.stall_cycles == pytest.approx(with_one.cycles - without.cycles)
    assert sum(op.cycles for op in with_one.ops) == pytest.approx(with_one.cycles)


def test_a_program_that_computes_long_enough_hides_it(tmp_path: Path) -> None:
    with_one = prefetching(tmp_path / "a", "v6e", 30_000)
    without = prefetching(tmp_path / "b", "v6e", 30_000, ahead=False)
    assert with_one.cycles == without.cycles
    copy = next(op for op in with_one.ops if op.name == "copy-start")
    assert (copy.cycles, copy.read_bytes) == (0.0, 8 * MIB)


def test_bandwidth_falls_once_a_program_has_moved_much(tmp_path: Path) -> None:
    """Sixty copies of 128 MiB: on v6e the published rate holds for its first gigabytes only."""
    granules, clock = 4 * MIB, clock_of(TARGETS["v6e"])

    def copies(count: int, target: str) -> float:
        text = schedule(
            "%s1_s0 = scalar_parameter_address 0  ;;  %3 = vsyncpa [#allocation5], 0",
            *[
                "%5 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s1_s0, "
                f"/*size_in_granules=*/{granules}, /*vmem=*/[#allocation6], "
                "/*dst_syncflagno=*/[#allocation5]"
            ]
            * count,
            f"%6 = dma.done.wait [#allocation5], {granules * count}",
            "",
        )
        return simulate(folder_of(tmp_path / f"{target}{count}", text), TARGETS[target]).seconds

    size = 128 * MIB
    before = clock.burst_bytes // size
    after = 60 - before - 1
    fast, slow = size / clock.bandwidth, size / clock.bandwidth / clock.sustained
    assert copies(10, "v6e") == pytest.approx(10 * fast, rel=0.01)
    assert copies(60, "v6e") == pytest.approx((before + 1) * fast + after * slow, rel=0.01)
    assert copies(60, "v5e") == pytest.approx(6 * copies(10, "v5e"), rel=0.01)


def test_a_compiled_product_is_no_faster_than_its_bytes(tmp_path: Path) -> None:
    """256 x 16384 x 256: XLA prefetches x, so that the program itself reads w alone."""
    subprocess.run(
        [sys.executable, SCRIPT, tmp_path, "v6e", "long_sum"],
        check=True,
        timeout=200,
        capture_output=True,
    )
    target = TARGETS["v6e"]
    program = simulate(tmp_path / "v6e-long_sum", target)
    assert program.seconds >= (2 * 8 * MIB + 4 * 256 * 256) / target.hbm_bandwidth
    assert sum(op.read_bytes for op in program.ops) == 2 * 8 * MIB
