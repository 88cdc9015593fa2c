"""A dump of another generation than the target is refused wherever its text tells."""

from itertools import product
from pathlib import Path

import pytest
from benchmarks.fidelity.archives import unpack

from maxkernel.schedule import ScheduleError, simulate
from maxkernel.targets import TARGETS

DATA = Path(__file__).parent / "data"
OTHERS = [(made, asked) for made, asked in product(TARGETS, TARGETS) if made != asked]


@pytest.mark.parametrize(("made", "asked"), OTHERS)
def test_matrix_products_tell_their_generation(made: str, asked: str, tmp_path: Path) -> None:
    unpack(DATA / f"{made}-matmul.tar.gz", tmp_path)
    if (made, asked) == ("v5e", "v5p"):
        # Each core of a v5p would run it: nothing in it is foreign to one.
        assert simulate(tmp_path, TARGETS[asked]).seconds > 0
        return
    with pytest.raises(ScheduleError, match=f"another generation than {asked}: .*{made}") as caught:
        simulate(tmp_path, TARGETS[asked])
    assert caught.value.kind == "foreign"


@pytest.mark.parametrize(("made", "asked"), OTHERS)
def test_programs_without_matrix_products_tell_most(made: str, asked: str, tmp_path: Path) -> None:
    unpack(DATA / f"{made}-gather32.tar.gz", tmp_path)
    if {made, asked} <= {"v5e", "v6e", "v5p"} and made != "v5p":
        assert simulate(tmp_path, TARGETS[asked]).seconds > 0
        return
    with pytest.raises(ScheduleError, match=f"another generation than {asked}: .*{made}"):
        simulate(tmp_path, TARGETS[asked])
