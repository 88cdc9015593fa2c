"""Real dumps of small programs (`dump_programs.py`): trip counts, traffic, tables, two cores."""

from pathlib import Path

import pytest
from benchmarks.fidelity.archives import unpack

from maxkernel.schedule import (
    KernelOperands,
    Known,
    ScalarOperand,
    ScheduleError,
    expected_error,
    simulate,
)
from maxkernel.targets import TARGETS
from maxkernel.types import OpTime, ProgramTime

DATA = Path(__file__).parent / "data"
MIB = 2**20
ALL = ("v4", "v5e", "v5p", "v6e", "v7x")


@pytest.fixture
def run(tmp_path: Path):
    def simulate_dump(name: str, known: Known | None = None) -> ProgramTime:
        unpack(DATA / f"{name}.tar.gz", tmp_path / name)
        target = TARGETS[name.split("-")[0]]
        return simulate(tmp_path / name, target, known=known)

    return simulate_dump


def kernel(name: str, *tables: ScalarOperand) -> Known:
    """The first operand of each call of a kernel."""
    return Known(tuple(KernelOperands(name, {0: table}) for table in tables))


def op(program: ProgramTime, name: str) -> OpTime:
    return next(item for item in program.ops if item.name == name)


def traffic(program: ProgramTime) -> tuple[float, float]:
    """MiB read from and written to HBM by the whole program."""
    return (
        sum(item.read_bytes for item in program.ops) / MIB,
        sum(item.write_bytes for item in program.ops) / MIB,
    )


def test_rmsnorm_moves_its_blocks_once(run) -> None:
    program = run("v6e-rmsnorm")
    kernel = op(program, "rmsnorm.1")
    assert kernel.kind == "kernel"
    assert 'custom_call_target="tpu_custom_call"' in kernel.hlo and len(kernel.hlo) <= 300
    assert traffic(program) == pytest.approx((4, 4), rel=0.01)
    assert kernel.units["eup"] == 32 * 64 // 8
    assert program.unknown == {} and program.assumptions == ()
    assert sum(item.cycles for item in program.ops) == pytest.approx(program.cycles)


@pytest.mark.parametrize("target", ALL)
def test_matmul_on_every_generation(run, target: str) -> None:
    """64 grid steps; 256-cubed blocks; v7x moves the operands to VMEM before the kernel."""
    program = run(f"{target}-matmul")
    kernel = op(program, "matmul.1")
    read, write = traffic(program)
    assert write == pytest.approx(2)
    assert read == pytest.approx(4 if target == "v7x" else 16)
    size = TARGETS[target].mxu_size
    rows = 1024 * (1024 // size) ** 2
    assert kernel.units["mxu"] >= rows // 16
    ideal = 2 * 1024**3 / TARGETS[target].bf16_flops
    assert ideal < program.seconds < 60e-6
    assert program.unknown == {}


@pytest.mark.parametrize("target", ALL)
def test_a_table_in_scalar_memory_decides_what_is_read(run, target: str) -> None:
    """The rows of the table are constant: four of 32 blocks differ from the one before."""
    table = [i if j % 25 == 0 else 77 for i in range(4) for j in range(200)]
    known = kernel("gather", ScalarOperand((4, 200), "int32", tuple(table)))
    program = run(f"{target}-gather32", known)
    assert not any("unknown" in note for note in program.assumptions)
    if target != "v7x":
        assert traffic(program)[0] == pytest.approx(4 * 0.5, rel=0.01)
    assert traffic(program)[1] == pytest.approx(16)


def test_a_missing_table_is_an_assumption_and_an_expected_error(run) -> None:
    known = kernel("gather", ScalarOperand((4, 200), "int32", (0,) * 800))
    with_table, without = run("v6e-gather32", known), run("v6e-gather32")
    assert any("unknown" in note for note in without.assumptions)
    assert expected_error(without) > expected_error(with_table) + 0.1


def test_packed_tables_follow_their_tiles(run) -> None:
    table = [(h * 6 + i) % 4 if j % 25 == 0 else 77
             for h in range(2) for i in range(6) for j in range(200)]  # fmt: skip
    known = kernel("gather", ScalarOperand((2, 6, 200), "int8", tuple(table)))
    assert traffic(run("v6e-gather8", known))[0] == pytest.approx(4 * 0.5, rel=0.01)


def test_a_dynamic_grid_takes_its_bound_from_the_operand(run) -> None:
    known = kernel("dynamic_grid", ScalarOperand((), "int32", (20,)))
    assert traffic(run("v6e-dynamic_grid", known)) == pytest.approx((10, 10), rel=0.01)
    assert "operand 0 is unknown" in run("v6e-dynamic_grid").assumptions[0]


def test_calls_of_one_kernel_take_their_tables_in_order(run) -> None:
    def loops(*counts: int) -> dict[str, float]:
        tables = [ScalarOperand((4,), "int32", (0, count, 0, 0)) for count in counts]
        program = run("v6e-same_twice", kernel("same", *tables))
        return {item.name: item.cycles for item in program.ops}

    few, first, second = loops(1, 1), loops(101, 1), loops(1, 101)
    assert first["same.2"] - few["same.2"] > 800 > 20 > abs(first["same.3"] - few["same.3"])
    assert second["same.3"] - few["same.3"] > 800 > 20 > abs(second["same.2"] - few["same.2"])


def test_copies_by_hand_pay_latency_each_time(run) -> None:
    program = run("v6e-manual_copy")
    kernel = op(program, "manual_copy.1")
    assert traffic(program) == pytest.approx((4, 4))
    assert kernel.stall_cycles / kernel.cycles > 0.95
    assert program.seconds > 16 * (0.5e-6 + 0.5 * MIB / 1.6e12)


def test_semaphores_and_sleep(run) -> None:
    program = run("v6e-semaphores")
    kernel = op(program, "semaphores.1")
    assert program.assumptions == ()
    assert kernel.cycles - kernel.stall_cycles > 1750
    assert kernel.units["store"] >= 256 * 256 // (8 * 128 * 2)


def test_a_kernel_that_talks_to_other_chips_is_refused(run) -> None:
    with pytest.raises(ScheduleError, match=r"remote\.1") as caught:
        run("v6e-remote")
    assert caught.value.kind == "collective"


def test_a_shortened_file_name_is_found_again(run) -> None:
    kernel = next(item for item in run("v6e-long_name").ops if item.kind == "kernel")
    assert kernel.name.startswith("wordy_" * 40) and kernel.cycles > 100


def test_while_and_scan_run_their_bodies(run) -> None:
    program = run("v6e-while_loop")
    assert op(program, "convolution_tanh_fusion.2").calls == 10
    program = run("v6e-scan")
    body = op(program, "bitcast_dynamic-update-slice_fusion.2")
    assert body.calls == 24
    assert traffic(program) == pytest.approx((18.25, 6.25), rel=0.02)
    copy = op(program, "copy-start")
    assert copy.write_bytes == 0.25 * MIB and copy.stall_cycles == copy.cycles > 0


def test_a_loop_that_depends_on_data_is_marked(run) -> None:
    program = run("v6e-while_data")
    assert any("depends on data" in note for note in program.assumptions)


def test_v5p_runs_both_cores_or_one(run) -> None:
    split, single = run("v5p-matmul"), run("v5p-gather32")
    assert split.assumptions == ()
    assert any("one of the two cores idles" in note for note in single.assumptions)


def test_a_damaged_dump_is_a_typed_failure(tmp_path: Path) -> None:
    unpack(DATA / "v6e-matmul.tar.gz", tmp_path)
    kernel = next(path for path in tmp_path.glob("*matmul.1-01-packed-bundles-post-ra.txt"))
    text = kernel.read_text()
    kernel.write_text(text[: len(text) // 2])
    with pytest.raises(ScheduleError, match=r"matmul\.1") as caught:
        simulate(tmp_path, TARGETS["v6e"])
    assert caught.value.kind == "truncated"
    kernel.unlink()
    with pytest.raises(ScheduleError, match=r"matmul\.1") as caught:
        simulate(tmp_path, TARGETS["v6e"])
    assert caught.value.kind == "missing"


def test_tables_of_a_kernel_with_another_name_go_by_order(run) -> None:
    """jax's paged attention is named after the function around it, not after its kernel."""
    known = kernel("body_of_the_kernel", ScalarOperand((), "int32", (20,)))
    program = run("v6e-dynamic_grid", known)
    assert program.assumptions == ()
    assert traffic(program) == pytest.approx((10, 10), rel=0.01)
