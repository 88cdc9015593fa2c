"""Reading bundles: operands, guards, comments, regions, and text that is none."""

import pytest
from schedule_texts import schedule

from maxkernel.schedule.opcodes import COUNTED, unit_of
from maxkernel.schedule.problem import ScheduleError
from maxkernel.schedule.text import Memory, Register, Symbol, parse_program


def parsed(*bundles: str):
    return parse_program(schedule(*bundles), "test")


def test_operands_of_every_form() -> None:
    bundle = parsed(
        "%s12_s3 = smov (!%p7_p1, %s8_s3), 4294967295  ;;  "
        "%s9_s1 = sld [smem:[#allocation3 + %s12_s3]] (%p7_p1)  ;;  "
        "%4 = sst [smem:[#allocation9 + $0x1f]] (!%p7_p1), %s9_s1  ;;  "
        "%s5_s2 = scalar_lea.vmem [#allocation2], %s9_s1 [#allocation4]  ;;  "
        "%s6_s4 = smov 1.5"
    ).bundles[0]
    move, load, store, lea, number = bundle.instructions
    assert (move.result, move.guard, move.otherwise) == (
        "s12",
        Register("p7", negated=True),
        Register("s8"),
    )
    assert move.operands == (0xFFFFFFFF,)
    assert load.guard == Register("p7")
    assert load.operands == (Memory("smem", (Symbol("allocation3"), Register("s12"))),)
    assert store.operands == (Memory("smem", (Symbol("allocation9"), 0x1F)), Register("s9"))
    assert store.guard == Register("p7", negated=True)
    assert lea.operands == (Symbol("allocation2"), Register("s9"))
    assert number.operands == (0x3FC00000,)


def test_a_copy_has_named_operands_and_its_comments_nest() -> None:
    program = parsed(
        "%7 = dma.hbm_to_vmem [thread:$0]  (!%p1_p0), /*hbm=*/%s2_s0, /*size_in_granules=*/64, "
        "/*vmem=*/%s3_s1, /*dst_syncflagno=*/[#allocation5 + $0x1], /*src_stride=*/%s4_s2 /* \n"
        "base_bounds: (1, 2) { 0x3 : {} }\n */",
        "%8 = shalt.err (!%p1_p0) /* BoundsCheck 0 [deref of %s2] for %7 = dma.hbm_to_vmem "
        "/*hbm=*/%s2 /* \nstrides: (32, 8)\n */\nhlo: copy-start.1\n */",
    )
    copy = program.bundles[0].instructions[0]
    assert copy.guard == Register("p1", negated=True)
    assert copy.named == {
        "hbm": Register("s2"),
        "size_in_granules": 64,
        "vmem": Register("s3"),
        "dst_syncflagno": Symbol("allocation5", 1),
        "src_stride": Register("s4"),
    }
    assert "hlo: copy-start.1" in program.bundles[1].instructions[0].note


def test_regions_name_the_bundle_that_starts_them() -> None:
    program = parsed("", "| Start region 3 :: Start/End empty region 4", "| End region 3")
    assert program.regions == {0: 0, 3: 1, 4: 1}
    assert program.bundles[2].ends == (3, 0)


def test_units_are_counted_and_unknown_names_kept() -> None:
    program = parsed(
        "%v1_v0 = vld [vmem:[%s0_s0] sm:$0xff]  ;;  %v2_v1 = vadd.f32 %v1_v0, %v1_v0  ;;  "
        "%3 = vmatmul.mubr.bf16.gmra.mxu0 %v2_v1  ;;  %v4_v2 = vpop.f32.mrf.mxu0  ;;  "
        "%v5_v3 = vfrobnicate.f32 %v2_v1  ;;  %s6_s0 = smov 1"
    )
    counts = dict(zip(COUNTED, program.bundles[0].units, strict=True))
    assert counts == {
        "load": 1, "valu": 1, "mxu": 1, "pop": 1, "scalar": 1, "xlu": 0, "eup": 0, "store": 0,
        "matmul": 1, "spill": 0,
    }  # fmt: skip
    assert program.unknown == {"vfrobnicate.f32": 1}


@pytest.mark.parametrize(
    ("name", "unit"),
    [("vadd.xlane.f32.xlu1", "xlu"), ("vperm.slane", "valu"), ("vperm.xlu0", "xlu"),
     ("vrsqrt.f32", "eup"), ("vsyncadd", "scalar"), ("vst.msk", "store"), ("sbr.rel", "scalar")],
)  # fmt: skip
def test_slots_of_instructions(name: str, unit: str) -> None:
    assert unit_of(name) == unit


@pytest.mark.parametrize("text", ["", "hello\n", "HloModule jit_f\n\nENTRY %main {\n}\n"])
def test_other_text_is_foreign(text: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_program(text, "odd.txt")
    assert caught.value.kind == "foreign"
    assert "odd.txt" in str(caught.value)


def test_every_cut_of_a_schedule_is_refused() -> None:
    text = schedule(*["%s1_s0 = smov 1  ;;  %s2_s1 = sadd.s32 1, %s1_s0"] * 4)
    start = text.index("     0   :")
    for end in range(start + 12, len(text) - 2, 7):
        with pytest.raises(ScheduleError) as caught:
            parse_program(text[:end], "cut.txt")
        assert caught.value.kind in ("truncated", "foreign")


def test_a_missing_bundle_is_named() -> None:
    lines = schedule("", "", "", "").splitlines(keepends=True)
    with pytest.raises(ScheduleError, match="bundle 0x2 is missing") as caught:
        parse_program("".join(line for line in lines if "0x2" not in line), "gap.txt")
    assert caught.value.kind == "truncated"
