"""The digest names the right bottleneck, in few lines."""

from pathlib import Path

import msgspec
import pytest
from benchmarks.fidelity.archives import unpack

from maxkernel.schedule import digest, simulate
from maxkernel.schedule.constants import clock_of
from maxkernel.schedule.explain import Finding, bottleneck
from maxkernel.schedule.units import unit_use
from maxkernel.targets import TARGETS
from maxkernel.types import CopyTime, OpTime, ProgramTime

DATA = Path(__file__).parent / "data"


def simulated(tmp_path: Path, name: str) -> ProgramTime:
    unpack(DATA / f"{name}.tar.gz", tmp_path)
    return simulate(tmp_path, TARGETS[name.split("-")[0]])


def program(**fields: object) -> ProgramTime:
    """A v6e program of one kernel that takes a million cycles."""
    clock = TARGETS["v6e"].clock_hz
    values = {"stall_cycles": 0.0, **fields}
    op = OpTime("k.1", "kernel", 1, 1e6 / clock, 1e6, **values)  # type: ignore[arg-type]
    return ProgramTime("v6e", op.seconds, op.cycles, (op,), clock)


def sentence(result: ProgramTime) -> str:
    text = " ".join(line.strip() for line in digest(result))
    return text[text.index("bottleneck:") : text.index("ops (time")]


def test_regions_add_up_and_tell_steps_from_branches(tmp_path: Path) -> None:
    kernel = next(op for op in simulated(tmp_path, "v6e-matmul").ops if op.kind == "kernel")
    assert sum(region.cycles for region in kernel.regions) == pytest.approx(kernel.cycles)
    names = {region.name for region in kernel.regions}
    assert {"every step (64)", "branch in 16 of 64 steps", "before the loop"} <= names
    body = max(kernel.regions, key=lambda region: region.units.get("matmul", 0))
    assert body.executions == 64
    assert sum(region.stall_cycles for region in kernel.regions) == pytest.approx(
        kernel.stall_cycles
    )


def test_copies_name_the_operand_and_its_block(tmp_path: Path) -> None:
    kernel = next(op for op in simulated(tmp_path, "v6e-matmul").ops if op.kind == "kernel")
    copies = {copy.name: copy for copy in kernel.copies}
    assert set(copies) == {f"input {i} bf16[256,256]" for i in (0, 1)} | {"output 0 bf16[256,256]"}
    assert copies["input 0 bf16[256,256]"].count == 64
    assert copies["output 0 bf16[256,256]"].bytes == 2 * 2**20
    assert kernel.needed_bytes == 3 * 2 * 2**20


def test_digest_is_short_and_complete(tmp_path: Path) -> None:
    lines = digest(simulated(tmp_path, "v6e-matmul"))
    assert len(lines) <= 60 and all(len(line) <= 120 for line in lines)
    text = "\n".join(lines)
    for part in ("expected error", "bottleneck: matmul.1", "every step (64)", "input 1 bf16"):
        assert part in text


def test_a_full_memory_is_told_from_late_copies_and_from_rereading() -> None:
    bandwidth = clock_of(TARGETS["v6e"]).bandwidth
    moved = 0.95 * bandwidth * (1e6 / 1.75e9)
    copy = (CopyTime("input 0 bf16[8,128]", "hbm", "vmem", 1, moved, 1, 6e5),)
    busy = {"stall_cycles": 6e5, "copies": copy}
    full = sentence(program(read_bytes=moved, needed_bytes=moved, **busy))
    twice = sentence(program(read_bytes=moved, needed_bytes=moved / 4, **busy))
    late = sentence(program(read_bytes=moved / 10, needed_bytes=moved / 10, **busy))
    assert "HBM is busy" in full and "mostly for input 0 bf16[8,128]" in full
    assert "read each block once" in twice
    assert "start too late" in late and "saves at most 60 %" in late


def test_units_spills_and_latency_are_told_apart() -> None:
    matmul = sentence(program(units={"matmul": 230_000, "mxu": 500_000}))
    stores = sentence(program(units={"store": 1_900_000, "load": 100_000, "spill": 900_000}))
    latency = sentence(program(units={"valu": 400_000}))
    assert "limited by the matrix units, 92 % busy" in matmul and "saves at most 0 %" in matmul
    assert "VMEM stores, 95 % busy" in stores and "register spills" in stores
    assert "independent work" in latency


def test_the_bottleneck_is_what_could_save_most() -> None:
    """A full memory in the slowest op; a copy outside; two ops that hand an array through HBM."""
    clock = clock_of(TARGETS["v6e"])
    moved = 0.98 * clock.bandwidth * 1e6 / clock.hz
    full = OpTime("k.1", "kernel", 1, 1e6 / clock.hz, 1e6, 9e5, moved, needed_bytes=moved)
    copy = OpTime("copy.7", "xla", 1, 2e5 / clock.hz, 2e5, 1e5, hlo="%copy.7 = copy(%x)")
    tiny = OpTime("reshape.1", "xla", 1, 1e3 / clock.hz, 1e3, 0.0)
    found = [limit_of_program(full), limit_of_program(full, copy), limit_of_program(full, tiny)]
    assert "k.1" in found[0].sentence and found[0].gain == pytest.approx(0.02)
    assert "copy.7 (copy)" in found[1].sentence and found[1].gain == pytest.approx(1 / 6)
    assert "k.1" in found[2].sentence, "what cannot save anything is not the bottleneck"
    fusions = [msgspec.structs.replace(full, name=f"fusion.{n}", kind="xla") for n in (1, 2)]
    passes = limit_of_program(*fusions, needed=moved)
    assert "one pass" in passes.sentence and passes.gain == pytest.approx(0.49)
    capped = limit_of_program(*fusions, needed=moved, bound=0.8 * 2e6 / clock.hz)
    assert capped.gain == pytest.approx(0.2)


def limit_of_program(*ops: OpTime, needed: float = 0.0, bound: float = 0.0) -> Finding:
    cycles = sum(op.cycles for op in ops)
    clock = clock_of(TARGETS["v6e"])
    return bottleneck(ProgramTime("v6e", cycles / clock.hz, cycles, ops, clock.hz), bound, needed)


def test_unit_use_is_a_share_of_slots() -> None:
    use = unit_use({"valu": 200, "load": 150, "eup": 100}, 100, "v6e")
    assert use == {"valu": 0.75, "load": 0.5, "eup": 1.0}
