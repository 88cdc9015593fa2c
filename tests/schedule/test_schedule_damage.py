"""Damaged and foreign dumps give a time or a typed failure, never another error."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.fidelity.archives import unpack
from schedule_texts import folder_of, schedule

from maxkernel.schedule import ScheduleError, simulate
from maxkernel.targets import TARGETS

DATA = Path(__file__).parent / "data"
KINDS = ("cut", "hole", "exchange", "character", "word", "number", "lines")
NUMBERS = ("0", "-1", "7", str(2**31), str(2**33), str(10**30))
WORDS = ("", "frob", "sbr.rel", "%s1_s0", "{", "}", "/*", '"')


def damaged(text: str, draw: random.Random) -> str:
    at = draw.randrange(len(text))
    end = at + draw.randrange(1, 400)
    match draw.choice(KINDS):
        case "cut":
            return text[:at]
        case "hole":
            return text[:at] + text[end:]
        case "exchange":
            return text[:at] + text[end : end + 200] + text[at:end] + text[end + 200 :]
        case "character":
            return text[:at] + chr(draw.randrange(1, 300)) + text[at + 1 :]
        case "lines":
            lines = text.splitlines(keepends=True)
            first, second = draw.randrange(len(lines)), draw.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
            return "".join(lines)
        case kind:
            found = list(re.finditer(r"\d+" if kind == "number" else r"[\w.]+", text))
            place = draw.choice(found)
            new = draw.choice(NUMBERS if kind == "number" else WORDS)
            return text[: place.start()] + new + text[place.end() :]


@pytest.mark.parametrize("name", ["v6e-gather32", "v5p-gather32"])
def test_damage_of_any_kind_is_a_time_or_a_typed_failure(tmp_path: Path, name: str) -> None:
    unpack(DATA / f"{name}.tar.gz", tmp_path)
    kept = {
        path: path.read_text()
        for path in sorted(tmp_path.glob("*.txt"))
        if "schedule-analysis" not in path.name and "late-" not in path.name
    }
    kinds: set[str] = set()
    for seed in range(90):
        draw = random.Random(seed)
        path = draw.choice(sorted(kept))
        path.write_text(damaged(kept[path], draw))
        try:
            assert simulate(tmp_path, TARGETS[name.split("-")[0]]).seconds > 0
            kinds.add("a time")
        except ScheduleError as error:
            assert len(str(error)) < 1000
            kinds.add(error.kind)
        path.write_text(kept[path])
    assert kinds >= {"a time", "truncated", "foreign"}


@pytest.mark.parametrize(
    "bundle",
    [
        "%1 = vsyncpa [#allocation5]",
        "%1 = dma.done.wait",
        "%s1_s0 = inlined_call_operand.smem [shape: s32[1]]  ;;  %2 = vdelay",
    ],
)
def test_an_instruction_without_its_operands_is_foreign_and_its_program_named(
    tmp_path: Path, bundle: str
) -> None:
    top = schedule("%1 = inlined_call /* %odd_one = fusion(%x) */")
    with pytest.raises(ScheduleError, match="odd_one") as caught:
        simulate(folder_of(tmp_path, top, odd_one=schedule(bundle)), TARGETS["v6e"])
    assert caught.value.kind == "foreign"


def halved(folder: Path) -> None:
    text = (path := next(folder.glob("*-TLP-hlo.txt"))).read_text()
    path.write_text(text[: len(text) // 2])


def without_module(folder: Path) -> None:
    next(folder.glob("*-TLP-hlo.txt")).unlink()


def without_an_op_in_the_module(folder: Path) -> None:
    schedule_of(folder, "matmul.1").unlink()
    text = (path := next(folder.glob("*-TLP-hlo.txt"))).read_text()
    path.write_text(text.replace("%matmul.1 = ", "%other = "))


def exchanged(one: str, other: str) -> Callable[[Path], object]:
    return lambda folder: schedule_of(folder, one).write_text(
        schedule_of(folder, other).read_text()
    )


def final(folder: Path) -> None:
    """As the compiler's `final_bundles` are marked; runs of empty bundles are folded there."""
    text = (path := schedule_of(folder, "matmul.1")).read_text()
    mark = "/* entry bundle: %matmul.1 = custom-call(%x, %w) */ */"
    path.write_text(text.replace("*/", mark, 1))


def schedule_of(folder: Path, name: str) -> Path:
    return next(
        path
        for path in folder.glob(f"*-{name}-*-packed-bundles-post-ra.txt")
        if "schedule-analysis" not in path.name
    )


@pytest.mark.parametrize(
    ("damage", "kind", "seen"),
    [
        (without_module, "missing", "TLP-hlo.txt"),
        (halved, "truncated", "TLP-hlo.txt.*ends early"),
        (without_an_op_in_the_module, "missing", "matmul.1"),
        (final, "foreign", "matmul.1: final bundles"),
        (exchanged("TLP", "matmul.1"), "foreign", "TLP.*the program of an op"),
        (exchanged("matmul.1", "TLP"), "foreign", "matmul.1: a whole program"),
    ],
)
def test_a_dump_that_would_give_a_wrong_time_is_refused(
    tmp_path: Path, damage: Callable[[Path], object], kind: str, seen: str
) -> None:
    """Each of these files can be read: it is what it says, or what is missing, that is wrong."""
    unpack(DATA / "v6e-matmul.tar.gz", tmp_path)
    damage(tmp_path)
    with pytest.raises(ScheduleError, match=seen) as caught:
        simulate(tmp_path, TARGETS["v6e"])
    assert caught.value.kind == kind


def test_a_file_that_cannot_be_read_is_typed(tmp_path: Path) -> None:
    """A folder where the top-level program should be."""
    (tmp_path / "1000-TLP-02-packed-bundles-post-ra.txt").mkdir()
    with pytest.raises(ScheduleError, match=tmp_path.name) as caught:
        simulate(tmp_path, TARGETS["v6e"])
    assert caught.value.kind == "foreign"
