"""A profile's parts: regions that add up, source lines, VMEM, registers, the steady state."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from benchmarks.fidelity.archives import unpack
from schedule_texts import schedule

from maxkernel.schedule import digest, simulate
from maxkernel.schedule.blocks import Block
from maxkernel.schedule.origin import Places, without_strings
from maxkernel.schedule.pressure import live_registers
from maxkernel.schedule.text import parse_program
from maxkernel.schedule.vmem import read_report
from maxkernel.targets import TARGETS
from maxkernel.types import OpTime, ProgramTime

DATA = Path(__file__).parent / "data"
SCRIPT = Path(__file__).parent / "dump_programs.py"
ROOM = "dump_programs.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fresh dumps of two kernels, by the compiler that is installed."""
    path = tmp_path_factory.mktemp("fresh")
    subprocess.run(
        [sys.executable, SCRIPT, path, "v6e", "matmul", "hostile_names"],
        check=True,
        timeout=200,
        capture_output=True,
    )
    return path


@pytest.fixture(scope="module")
def program(folder: Path) -> ProgramTime:
    return simulate(folder / "v6e-matmul", TARGETS["v6e"])


@pytest.fixture(scope="module")
def kernel(program: ProgramTime) -> OpTime:
    return next(op for op in program.ops if op.kind == "kernel")


def line_of(text: str) -> int:
    """The line of the only place in the script of kernels that holds `text`."""
    found = [n for n, line in enumerate(SCRIPT.read_text().splitlines(), 1) if text in line]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("name", ["v4-matmul", "v5p-matmul", "v6e-rmsnorm", "v6e-scan",
                                  "v6e-manual_copy", "v7x-matmul"])  # fmt: skip
def test_the_cycles_of_regions_add_up_to_the_op(tmp_path: Path, name: str) -> None:
    unpack(DATA / f"{name}.tar.gz", tmp_path)
    result = simulate(tmp_path, TARGETS[name.split("-")[0]])
    for op in (op for op in result.ops if op.regions):
        assert sum(r.cycles for r in op.regions) == pytest.approx(op.cycles), op.name
        stalls = sum(r.stall_cycles for r in op.regions)
        assert stalls == pytest.approx(op.stall_cycles), op.name
        blamed = sum(sum(r.waits.values()) for r in op.regions)
        assert blamed == pytest.approx(sum(c.stall_cycles for c in op.copies)), op.name
    assert sum(op.cycles for op in result.ops) == pytest.approx(result.cycles)


def test_a_step_its_branches_and_its_waits_are_told_apart(kernel: OpTime) -> None:
    kinds = {region.name: region.kind for region in kernel.regions}
    assert kinds["every step (64)"] == "step"
    assert kinds["branch in 16 of 64 steps"] == "branch"
    assert kinds["pipeline waits (64 steps)"] == "wait"
    body = next(region for region in kernel.regions if region.kind == "step")
    assert body.units["matmul"] == kernel.units["matmul"] and body.stall_cycles == 0
    waits = next(region for region in kernel.regions if region.kind == "wait")
    assert set(waits.waits) == {f"input {i} bf16[256,256]" for i in (0, 1)}


def test_regions_and_cycles_name_the_lines_of_the_kernel(kernel: OpTime) -> None:
    product = line_of("total[...] += jnp.dot(x[...], y[...], preferred_element_type=F32)")
    zero = line_of("total[...] = jnp.zeros_like(total)")
    body = next(region for region in kernel.regions if region.kind == "step")
    assert (body.file, body.hot_line) == (ROOM, product)
    first = next(region for region in kernel.regions if region.kind == "branch")
    assert first.lines == (zero, zero)
    lines = {line.line: line for line in kernel.lines}
    assert lines[product].units["mxu"] == kernel.units["mxu"]
    assert max(kernel.lines, key=lambda line: line.cycles).line == product
    assert sum(line.cycles for line in kernel.lines) < kernel.cycles - kernel.stall_cycles


def test_vmem_and_registers(program: ProgramTime, kernel: OpTime) -> None:
    """Two buffers of each block of 128 KiB, and the accumulator in float32."""
    sizes = {buffer.name: (buffer.bytes >> 10, buffer.copies) for buffer in kernel.buffers}
    assert sizes["scratch operand f32[256,256]"] == (256, 1)
    assert sizes["input 0 bf16[256,256]"] == (256, 2)
    assert sizes["output 0 bf16[256,256]"] == (256, 2)
    assert program.vmem_bytes == 128 << 20
    body = next(region for region in kernel.regions if region.kind == "step")
    assert 32 < body.live_registers <= 64


def test_the_steady_state_shows_copies_and_waits(kernel: OpTime) -> None:
    kinds = {event.kind for event in kernel.trace}
    assert kinds == {"in", "out", "wait"}
    assert all(event.end >= event.start >= 0 for event in kernel.trace)
    starts = [event.start for event in kernel.trace]
    assert starts == sorted(starts) and starts[0] == 0
    waited = sum(event.end - event.start for event in kernel.trace if event.kind == "wait")
    assert 0 < waited < max(event.end for event in kernel.trace)


def test_what_a_kernel_calls_its_file_is_no_part_of_the_program(folder: Path) -> None:
    """Its file's name closes comments, opens them, and holds bundles, quotes and newlines."""
    result = simulate(folder / "v6e-hostile_names", TARGETS["v6e"])
    kernel = next(op for op in result.ops if op.kind == "kernel")
    assert kernel.lines and result.unknown == {} and result.assumptions == ()
    assert kernel.units["eup"] >= 4
    texts = (folder / "v6e-hostile_names").glob("*hostile*packed-bundles-post-ra.txt")
    (text,) = [path for path in texts if "schedule-analysis" not in path.name]
    assert "%99 = smov" in text.read_text(), "the name is in the dump"
    parsed = parse_program(text.read_text(), "k")
    assert not any(item.result == "99" for b in parsed.bundles for item in b.instructions)


def test_locations_change_nothing_but_the_lines(folder: Path) -> None:
    """The same kernel, its locations cut from the text: the same time in the same regions."""
    before = simulate(folder / "v6e-matmul", TARGETS["v6e"])
    for path in (folder / "v6e-matmul").glob("*packed-bundles-post-ra.txt"):
        text, _ = without_strings(path.read_text())
        path.write_text(text.replace("loc(", "("))
    after = simulate(folder / "v6e-matmul", TARGETS["v6e"])
    assert after.seconds == before.seconds
    plain = msgspec.structs.replace
    for old, new in zip(before.ops, after.ops, strict=True):
        bare = tuple(plain(r, file="", lines=(0, 0), hot_line=0) for r in old.regions)
        assert (new.regions, new.lines, new.copies) == (bare, (), old.copies)
    assert any("named none" in line for line in digest(after))


def test_a_place_is_the_innermost_frame_outside_libraries() -> None:
    text, strings = without_strings(
        'loc(callsite("/x/site-packages/jax/nn.py":7:1 at "/home/me/k.py":12:3)) "a\\22b"'
    )
    places = Places(strings)
    assert places.number(text) == 0 and places.number("no place") == -1
    assert places.found == (("k.py", 12),)
    assert strings[2] == "a\\22b" and '"2"' in text


def test_registers_live_around_a_loop() -> None:
    program = parse_program(
        schedule(
            "%v1_v0 = vld [vmem:[#allocation1]]",
            "%v2_v1 = vld [vmem:[#allocation1]]",
            "%v3_v2 = vadd.f32 %v1_v0, %v2_v1",
            "%4 = vst [vmem:[#allocation1]] %v3_v2",
        ),
        "k",
    )
    assert live_registers(program.bundles, [Block(0, 4)]) == [0, 1, 2, 1]
    loop = [Block(0, 2), Block(2, 4, None, 2, 2)]
    assert live_registers(program.bundles, loop)[2:] == [2, 3]


@pytest.mark.parametrize("data", ["", "{", "{}", '{"global_info": 3, "hlo_breakdowns": 4}'])
def test_a_foreign_vmem_report_is_an_empty_one(data: str) -> None:
    text = f"const DATA = {data}" if data else ""
    assert read_report(text).capacity == 0 and read_report(text).of("k") == ()
