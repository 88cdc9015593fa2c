"""A time does not depend on where copies point: that is not computed, and nothing changes by it."""

import itertools
from pathlib import Path

import pytest
from schedule_texts import SLOTS, folder_of, schedule

from maxkernel.schedule import Known, ScalarOperand, ScheduleError, simulate, simulate_draws
from maxkernel.schedule.liveness import analyse
from maxkernel.schedule.operands import words
from maxkernel.schedule.text import parse_program
from maxkernel.targets import TARGETS

V6E = TARGETS["v6e"]
COPY = (
    "%30 = dma.hbm_to_vmem (%p3_p0), /*hbm=*/%s6_s3, /*size_in_granules=*/%s8_s5, "
    "/*vmem=*/[#allocation6], /*dst_syncflagno=*/[#allocation5], /*src_stride=*/%s7_s4"
)
KERNEL = (
    "%s1_s0 = inlined_call_operand.hbm [shape: bf16[8,8], index: 0, kind: input]  ;;  "
    "%s2_s1 = smov 3",
    "%p3_p0 = scmp.lt.s32.totalorder %s2_s1, 5  ;;  %s4_s2 = sadd.s32 %s2_s1, 4",
    "%20 = sst [smem:[#allocation9_spill]] %s4_s2  ;;  %21 = sst [smem:[#allocation10_spill]] 64",
    "%s5_s2 = sld [smem:[#allocation9_spill]]  ;;  %s8_s5 = sld [smem:[#allocation10_spill]]",
    "%s6_s3 = sadd.s32 %s1_s0, %s5_s2  ;;  %s7_s4 = smov 9  ;;  %40 = vsyncpa [#allocation5], 0",
    COPY,
    "%31 = dma.done.wait [#allocation5], 64",
)


def needed(*bundles: str, follows_copies: bool = False) -> tuple[frozenset[str], frozenset[str]]:
    facts = analyse(parse_program(schedule(*bundles), "k"), follows_copies)
    return facts.needed, facts.spills


def test_sizes_and_guards_are_needed_and_addresses_are_not() -> None:
    found, spills = needed(*KERNEL)
    assert {"s8", "p3", "s2"} <= found
    assert not {"s1", "s4", "s5", "s6", "s7"} & found
    assert spills == {"allocation9_spill"}


def test_where_copies_are_followed_every_address_is_needed() -> None:
    found, spills = needed(*KERNEL, follows_copies=True)
    assert {"s1", "s4", "s5", "s6"} <= found and not spills


def test_a_copy_to_scalar_memory_needs_its_addresses() -> None:
    table = COPY.replace("hbm_to_vmem", "hbm_to_smem").replace("/*vmem=*/", "/*smem=*/")
    found, spills = needed(*KERNEL[:-2], table, KERNEL[-1])
    assert {"s1", "s4", "s5", "s6"} <= found and not spills


def test_a_spill_that_something_else_points_at_is_kept() -> None:
    pointer = "%s50_s9 = scalar_lea.smem [#allocation9_spill], 1"
    assert needed(*KERNEL, pointer)[1] == frozenset()


def test_a_merge_keeps_all_that_shares_its_register() -> None:
    found, _ = needed(
        "%s1_s0 = smov 0",
        "%s2_s0 = sphi %s1_s0, %s3_s0  ;;  %s3_s0 = sadd.s32 1, %s2_s0 | Start region 9",
        "%p4_p0 = scmp.ge.s32.totalorder %s3_s0, 4",
        "%5 = sbr.rel (!%p4_p0) target bundleno = 1 (0x1), region = 9",
        *SLOTS,
    )
    assert found == {"s1", "s2", "s3", "p4"}


def test_what_is_not_known_is_refused_even_where_only_an_address_needs_it(tmp_path: Path) -> None:
    top = schedule("%1 = inlined_call %s9_s9 /* %k = fusion(%x) */")
    odd = [text.replace("%s6_s3 = sadd.s32", "%s6_s3 = sfrob.u32") for text in KERNEL]
    right = simulate(folder_of(tmp_path / "a", top, k=schedule(*KERNEL)), V6E)
    assert next(op for op in right.ops if op.name == "k").read_bytes == 64 * 32
    with pytest.raises(ScheduleError, match=r"sfrob\.u32") as caught:
        simulate(folder_of(tmp_path / "b", top, k=schedule(*odd)), V6E)
    assert caught.value.kind == "unknown_control"


TILES = [
    ((7,), ((128,),)),
    ((5, 200), ((8, 128),)),
    ((2, 6, 200), ((8, 128), (4, 1))),
    ((3, 4), ()),
    ((4,), ((8, 128),)),
]


@pytest.mark.parametrize(("shape", "tiles"), TILES)
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_elements_lie_where_their_tiles_put_them(
    shape: tuple[int, ...], tiles: tuple[tuple[int, ...], ...], dtype: str
) -> None:
    """Beside the plain definition, element by element: split by each tile, then count."""
    size = [1, *itertools.accumulate(shape, lambda a, b: a * b)][-1]
    found = words(ScalarOperand(shape, dtype, tuple(range(1, size + 1))), tiles)
    per_word = {"int8": 4, "int16": 2, "int32": 1}[dtype]
    bits = 32 // per_word
    for number, index in enumerate(itertools.product(*map(range, shape))):
        word, slot = divmod(place(index, shape, tiles), per_word)
        assert found[word] >> (bits * slot) & (1 << bits) - 1 == (number + 1) % (1 << bits)


def place(
    index: tuple[int, ...], shape: tuple[int, ...], tiles: tuple[tuple[int, ...], ...]
) -> int:
    for tile in tiles if all(len(tile) <= len(shape) for tile in tiles) else ():
        lead = len(shape) - len(tile)
        inner = tuple(at % edge for at, edge in zip(index[lead:], tile, strict=True))
        outer = tuple(at // edge for at, edge in zip(index[lead:], tile, strict=True))
        counts = tuple(-(-n // edge) for n, edge in zip(shape[lead:], tile, strict=True))
        index, shape = index[:lead] + outer + inner, shape[:lead] + counts + tile
    total = 0
    for at, n in zip(index, shape, strict=True):
        total = total * n + at
    return total


def test_the_draw_nearest_to_the_mean_is_told(tmp_path: Path) -> None:
    """A kernel sleeps as long as its operand says: 100, 200 or 600 cycles."""
    top = schedule("%s1_s0 = scalar_parameter_address 0", "%2 = inlined_call %s1_s0 /* %k */")
    kernel = schedule(
        "%s1_s0 = inlined_call_operand.hbm [shape: s32[4], index: 0, kind: input]  ;;  "
        "%40 = vsyncpa [#allocation5], 0",
        "%s2_s1 = sshll.u32 %s1_s0, 4",
        "%3 = dma.hbm_to_smem /*hbm=*/%s2_s1, /*size_in_granules=*/1, /*smem=*/[#allocation6], "
        "/*dst_syncflagno=*/[#allocation5]",
        "%31 = dma.done.wait [#allocation5], 1",
        "%s4_s2 = sld [smem:[#allocation6]]",
        "%5 = vdelay %s4_s2",
    )
    hlo = "ENTRY %main (a: s32[4]) -> s32[4] {\n  %a = s32[4]{0} parameter(0)\n"
    hlo += "  %k = s32[4]{0} fusion(%a)\n}\n"
    folder = folder_of(tmp_path, top, hlo, k=kernel)
    draws = {
        seed: Known((), {0: ScalarOperand((4,), "int32", (sleep, 0, 0, 0))})
        for seed, sleep in ((1, 100), (2, 200), (3, 600), (4, 100))
    }
    told = simulate_draws(folder, V6E, draws)
    alone = {seed: simulate(folder, V6E, known=known) for seed, known in draws.items()}
    assert [draw.seconds for draw in told.draws] == [alone[seed].seconds for seed in draws]
    assert (told.cycles, told.ops) == (alone[2].cycles, alone[2].ops)
    assert alone[3].cycles - alone[1].cycles == 500


@pytest.mark.parametrize("name", ["v4", "v6e"])
def test_a_scalar_out_of_vector_memory_is_followed(tmp_path: Path, name: str) -> None:
    """A kernel sleeps as long as a scalar says that the program loads, pushes and pops.

    Copies address VMEM in granules: of 32 bytes on v6e, of 512, as loads do, on v4.
    """
    source, place = ("%s1_s0", "[#allocation6]") if name == "v4" else ("%s9_s4", "%s8_s3")
    top = schedule(
        "%s1_s0 = scalar_parameter_address 0  ;;  %40 = vsyncpa [#allocation5], 0",
        "%s8_s3 = sshll.u32 [#allocation6], 4  ;;  %s9_s4 = sshll.u32 %s1_s0, 4",
        f"%3 = dma.hbm_to_vmem /*hbm=*/{source}, /*size_in_granules=*/1, /*vmem=*/{place}, "
        "/*dst_syncflagno=*/[#allocation5]",
        "%31 = dma.done.wait [#allocation5], 1",
        "%v11_v1 = vld [vmem:[#allocation6] sm:$0xff]",
        "%12 = vpush %v11_v1",
        "%s13_s5 = spop %12",
        "%2 = inlined_call %s13_s5 /* %k */",
    )
    kernel = schedule(
        "%s1_s0 = inlined_call_operand.<no memory space> [shape: s32[1], index: 0, kind: input]",
        "%5 = vdelay %s1_s0",
    )
    hlo = "ENTRY %main (a: s32[1]) -> s32[1] {\n  %a = s32[1]{0} parameter(0)\n"
    hlo += "  %k = s32[1]{0} fusion(%a)\n}\n"
    folder = folder_of(tmp_path, top, hlo, k=kernel)
    known = Known((), {0: ScalarOperand((1,), "int32", (4321,))})
    told = simulate(folder, TARGETS[name], known=known)
    assert next(op for op in told.ops if op.name == "k").cycles == 4323
    assert not [note for note in told.assumptions if "unknown" in note or "zero" in note]
