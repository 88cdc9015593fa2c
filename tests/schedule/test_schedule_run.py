"""Executing hand-made programs: cycles, delay slots, guards, loops, flags, and what is refused."""

from pathlib import Path

import pytest
from schedule_texts import SLOTS, counted_loop, folder_of, schedule

from maxkernel.schedule import ScheduleError, simulate
from maxkernel.schedule.constants import clock_of
from maxkernel.targets import TARGETS

V6E = TARGETS["v6e"]


def cycles(path: Path, *bundles: str) -> float:
    return simulate(folder_of(path, schedule(*bundles)), V6E).cycles


def test_a_bundle_is_a_cycle(tmp_path: Path) -> None:
    assert cycles(tmp_path, "", "%s1_s0 = smov 1", "") == 3


def test_a_loop_runs_as_often_as_its_counter_says(tmp_path: Path) -> None:
    assert cycles(tmp_path, *counted_loop(10, "", ""), "") == 1 + 10 * (5 + 4) + 1
    assert cycles(tmp_path, *counted_loop(10, "", step="3"), "") == 1 + 4 * (4 + 4) + 1


@pytest.mark.parametrize(("name", "slots"), [("v6e", 4), ("v7x", 6)])
def test_delay_slots_of_a_taken_branch_are_executed(tmp_path: Path, name: str, slots: int) -> None:
    text = schedule(
        "%p1_p0 = scmp.eq.s32.totalorder 0, 0",
        "%2 = sbr.rel (%p1_p0) target bundleno = 12 (0xc), region = 5",
        *[""] * 10,
        "| Start region 5",
    )
    assert simulate(folder_of(tmp_path, text), TARGETS[name]).cycles == 2 + slots + 1


def test_a_branch_not_taken_falls_through(tmp_path: Path) -> None:
    assert (
        cycles(
            tmp_path,
            "%p1_p0 = scmp.ne.s32.totalorder 0, 0",
            "%2 = sbr.rel (%p1_p0) target bundleno = 9 (0x9), region = 5",
            *SLOTS,
            *[""] * 3,
            "| Start region 5",
        )
        == 10
    )


def taken(path: Path, *setup: str) -> bool:
    """Whether predicate %p9 holds after `setup`: the branch skips 100 bundles."""
    end = len(setup) + 5 + 100
    branch = f"%99 = sbr.rel (%p9_p1) target bundleno = {end} ({end:#x}), region = 5"
    return cycles(path, *setup, branch, *SLOTS, *[""] * 100, "| Start region 5") < 100


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("ssub.s32 3, 5", -2),
        ("smul.u32 4294967295, 7", -7),
        ("smulhi.u32 2147483648, 6", 3),
        ("sshra.s32 4294967280, 2", -4),
        ("sshrl.u32 4294967280, 28", 15),
        ("sshll.u32 3, 31", -2147483648),
        ("sxor.u32 12, 10", 6),
        ("smin.s32 4294967295, 3", -1),
        ("smin.u32 4294967295, 3", 3),
        ("smax.s32 4294967295, 3", 3),
        ("sadd.f32 1.5, 2.25", 0x40700000),
        ("scalar_lea.hbm 5, 6", 11),
    ],
)
def test_scalar_arithmetic(tmp_path: Path, expression: str, value: int) -> None:
    assert taken(
        tmp_path,
        f"%s1_s0 = {expression}",
        f"%p9_p1 = scmp.eq.s32.totalorder %s1_s0, {value & 0xFFFFFFFF}",
    )


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("scmp.lt.s32.totalorder %s1_s0, 1", True),
        ("scmp.lt.u32.totalorder %s1_s0, 1", False),
        ("scmp.ge.s32.totalorder 3, 3", True),
        ("scmp.gt.s32.totalorder 3, 3", False),
        ("scmp.lt.f32.partialorder 3212836864, 0", True),
        ("sc.u32 %s1_s0, 1", True),
        ("sc.u32 %s1_s0, 0", False),
        ("pnand %p2_p2, %p2_p2", False),
        ("pneg %p2_p2", False),
        ("por %p3_p3, %p2_p2", True),
    ],
)
def test_predicates(tmp_path: Path, expression: str, holds: bool) -> None:
    setup = (
        "%s1_s0 = smov 4294967295",
        "%p2_p2 = scmp.eq.s32.totalorder 1, 1  ;;  %p3_p3 = scmp.eq.s32.totalorder 1, 0",
        f"%p9_p1 = {expression}",
    )
    assert taken(tmp_path, *setup) is holds


def test_division_selects_quotient_or_remainder(tmp_path: Path) -> None:
    for note, value in (("", 3), (" /* kRem */", 2)):
        assert taken(
            tmp_path,
            f"%1 = sdivrem.u32 17, 5{note}",
            "%s2_s0 = spop.drf %1",
            f"%p9_p1 = scmp.eq.s32.totalorder %s2_s0, {value}",
        )


def test_guards_keep_the_old_or_the_given_value(tmp_path: Path) -> None:
    assert taken(
        tmp_path,
        "%p1_p0 = scmp.eq.s32.totalorder 1, 0  ;;  %s2_s0 = smov 7",
        "%s3_s0 = smov (%p1_p0, %s2_s0), 8  ;;  %s4_s1 = smov (!%p1_p0, %s2_s0), 9",
        "%5 = sst [smem:[#allocation7]] (%p1_p0), %s2_s0  ;;  "
        "%6 = sst [smem:[#allocation7 + $0x1]] (!%p1_p0), 5",
        "%s7_s2 = sld [smem:[#allocation7 + $0x1]]",
        "%s8_s3 = sadd.s32 %s3_s0, %s4_s1",
        "%s10_s4 = sadd.s32 %s8_s3, %s7_s2",
        "%p9_p1 = scmp.eq.s32.totalorder %s10_s4, 21",
    )


def test_a_bundle_reads_before_it_writes(tmp_path: Path) -> None:
    """Two registers swap in one bundle, three times."""
    swap = (
        "%s1_s0 = smov 0  ;;  %s11_s1 = smov 5  ;;  %s12_s2 = smov 6",
        "%s2_s0 = sphi %s1_s0, %s3_s0  ;;  %s21_s1 = sphi %s11_s1, %s31_s1  ;;  "
        "%s22_s2 = sphi %s12_s2, %s32_s2  ;;  %s3_s0 = sadd.s32 1, %s2_s0 | Start region 9",
        "%s31_s1 = smov %s22_s2  ;;  %s32_s2 = smov %s21_s1",
        "%p4_p0 = scmp.ge.s32.totalorder %s3_s0, 3",
        "%5 = sbr.rel (!%p4_p0) target bundleno = 1 (0x1), region = 9",
        *SLOTS,
        "%p9_p1 = scmp.eq.s32.totalorder %s31_s1, 6",
    )
    assert taken(tmp_path, *swap)


def test_a_copy_is_waited_for_once(tmp_path: Path) -> None:
    """1 MiB at the effective bandwidth, plus the latency, less the cycles in between."""
    text = schedule(
        "%s1_s0 = scalar_parameter_address 0  ;;  %3 = vsyncpa [#allocation5], 0",
        "%4 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s1_s0, /*size_in_granules=*/32768, "
        "/*vmem=*/[#allocation6], /*dst_syncflagno=*/[#allocation5]",
        *[""] * 98,
        "%5 = dma.done.wait [#allocation5], 32768",
        "%6 = vsyncadd [#allocation5], 4294934528",
        "",
    )
    free = simulate(folder_of(tmp_path / "a", schedule(*[""] * 103)), V6E)
    held = simulate(folder_of(tmp_path / "b", text), V6E)
    waited = (held.cycles - free.cycles) / held.clock_hz
    clock = clock_of(V6E)
    expected = clock.latency + (2**20 + clock.chunk_bytes) / clock.bandwidth - 99 / clock.hz
    assert waited == pytest.approx(expected, rel=0.01)


def test_calls_are_timed_per_op(tmp_path: Path) -> None:
    top = schedule(
        *counted_loop(6, "%8 = inlined_call %s2_s0 /* %double = fusion(%x) */"),
        "%9 = inlined_call /* %double.1 = fusion(%x) */",
    )
    folder = folder_of(tmp_path, top, double=schedule(*[""] * 50))
    (folder / "1000-TLP-00-deduplication-map.txt").write_text(
        "key:double\nordinal:1\nequivalent_hlos[size=2]:\n  double\n  double.1\n"
    )
    times = {op.name: op for op in simulate(folder, V6E).ops}
    assert (times["double"].calls, times["double"].cycles) == (6, 300)
    assert (times["double.1"].calls, times["double.1"].cycles) == (1, 50)
    assert times["program"].kind == "glue"


def test_ops_that_were_compiled_apart_are_timed_too(tmp_path: Path) -> None:
    top = schedule("%9 = call %s2_s0 /* %double = fusion(%x) */")
    folder = folder_of(tmp_path, top, double=schedule(*[""] * 50))
    times = {op.name: op for op in simulate(folder, V6E).ops}
    assert (times["double"].calls, times["double"].cycles) == (1, 50)


def test_a_call_inside_an_op_is_refused(tmp_path: Path) -> None:
    top = schedule("%9 = inlined_call %s2_s0 /* %double = fusion(%x) */")
    folder = folder_of(tmp_path, top, double=schedule("%9 = call %s2_s0 /* somewhere */"))
    with pytest.raises(ScheduleError, match="'call'"):
        simulate(folder, V6E)


def test_a_loop_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match="limit of loop steps") as caught:
        cycles(tmp_path, *counted_loop(0x7FFFFFFF, step="0"), "")
    assert caught.value.kind == "endless_loop"


def test_an_unknown_scalar_that_steers_is_refused_and_named(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"'sfrob\.s32' feeds control flow") as caught:
        taken(tmp_path, "%s1_s0 = sfrob.s32 3", "%p9_p1 = scmp.eq.s32.totalorder %s1_s0, 3")
    assert caught.value.kind == "unknown_control"


@pytest.mark.parametrize("op", ["sbr.abs", "scall", "dma.frob", "vsyncfrob"])
def test_unknown_control_is_refused_wherever_it_stands(tmp_path: Path, op: str) -> None:
    with pytest.raises(ScheduleError, match=op.replace(".", r"\.")) as caught:
        cycles(tmp_path, f"%1 = {op} %s2_s0, 4", "")
    assert caught.value.kind == "unknown_control"


def test_an_unknown_scalar_that_steers_nothing_is_counted(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, schedule("%s1_s0 = sfrob.s32 3", "%v1_v0 = vfrob.f32 %v0_v1"))
    assert simulate(folder, V6E).unknown == {"sfrob.s32": 1, "vfrob.f32": 1}


def test_a_loop_on_vector_data_runs_once_and_says_so(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        schedule(
            "%v1_v0 = vlaneseq | Start region 1",
            "%2 = vpush %v1_v0 | Start region 9",
            "%s3_s0 = spop %2",
            "%p4_p0 = scmp.lt.s32.totalorder %s3_s0, 10",
            "%5 = sbr.rel (%p4_p0) target bundleno = 1 (0x1), region = 9",
            *SLOTS,
            "",
        ),
    )
    result = simulate(folder, V6E)
    assert result.cycles == 10
    assert "depends on data" in result.assumptions[0]


def test_a_branch_to_nowhere_is_truncation(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match="region 77") as caught:
        cycles(tmp_path, "%1 = sbr.rel target bundleno = 9 (0x9), region = 77", *SLOTS, "")
    assert caught.value.kind == "truncated"


def test_a_collective_in_the_module_is_refused(tmp_path: Path) -> None:
    hlo = "ENTRY %main () -> f32[] {\n  %sum = f32[8]{0} all-reduce(%x), to_apply=%add\n}\n"
    with pytest.raises(ScheduleError, match=r"%sum \(all-reduce\)") as caught:
        simulate(folder_of(tmp_path, schedule("", ""), hlo), V6E)
    assert caught.value.kind == "collective"


def test_an_empty_folder_and_a_missing_op_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match="LIBTPU_INIT_ARGS") as caught:
        simulate(tmp_path, V6E)
    assert caught.value.kind == "missing"
    hlo = "ENTRY %main () -> f32[] {\n  %lost = f32[8]{0} fusion(%x), kind=kLoop\n}\n"
    top = schedule("%9 = inlined_call /* %lost = fusion(%x) */", "")
    with pytest.raises(ScheduleError, match="no schedule for %lost"):
        simulate(folder_of(tmp_path, top, hlo), V6E)


def test_names_in_a_dump_cannot_become_code(tmp_path: Path) -> None:
    evil = "%s1 = smov 0  ;;  %s2'+__import__('os').abort()+'_s0 = sld [smem:[%s1_s0]]"
    with pytest.raises(ScheduleError) as caught:
        cycles(tmp_path, evil, "")
    assert caught.value.kind == "foreign"


def test_without_a_deduplication_map_equal_ops_share_a_program(tmp_path: Path) -> None:
    """jax 0.9.2 writes no map: the op's text, operand shapes and called computation decide."""
    hlo = """
%add (a: f32[8], b: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  %b = f32[8]{0} parameter(1)
  ROOT %sum = f32[8]{0} add(%a, %b)
}
%mul (c: f32[8], d: f32[8]) -> f32[8] {
  %c = f32[8]{0} parameter(0)
  %d = f32[8]{0} parameter(1)
  ROOT %product = f32[8]{0} multiply(%c, %d)
}
%plus (e: f32[8], f: f32[8]) -> f32[8] {
  %e = f32[8]{0} parameter(0)
  %f = f32[8]{0} parameter(1)
  ROOT %total = f32[8]{0} add(%e, %f)
}
ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %one = f32[8]{0} fusion(%x, %x), kind=kLoop, calls=%add
  %two = f32[8]{0} fusion(%one, %x), kind=kLoop, calls=%plus, metadata={op_name="f"}
  ROOT %three = f32[8]{0} fusion(%two, %x), kind=kLoop, calls=%mul
}
"""
    calls = [f"%{i} = inlined_call /* %{name} = fusion(%x, %x) */" for i, name in
             enumerate(("one", "two", "three"))]  # fmt: skip
    one, three = schedule(*[""] * 20), schedule(*[""] * 30)
    folder = folder_of(tmp_path, schedule(*calls, ""), hlo, one=one, three=three)
    times = {op.name: op.cycles for op in simulate(folder, V6E).ops}
    assert (times["one"], times["two"], times["three"]) == (20, 20, 30)


def test_a_merge_takes_what_was_written_last(tmp_path: Path) -> None:
    """A phi behind a skipped loop: its value comes from before the branch or from the loop."""
    for skip, value in ((0, 3), (1, 7)):
        setup = (
            f"%p1_p1 = scmp.eq.s32.totalorder {skip}, 1  ;;  %s2_s0 = smov 7",
            "%3 = sbr.rel (%p1_p1) target bundleno = 9 (0x9), region = 8",
            *SLOTS,
            "",
            "",
            "%s4_s0 = smov 3",
            "%s5_s0 = sphi %s2_s0, %s4_s0 | Start region 8",
            f"%p9_p1 = scmp.eq.s32.totalorder %s5_s0, {value}",
        )
        assert taken(tmp_path, *setup)
