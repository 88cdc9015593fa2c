"""What a compile worker says of a schedule that it cannot read."""

from pathlib import Path

import pytest

from maxkernel.targets import TARGETS
from maxkernel.worker.compile import _simulate, compiler  # pyright: ignore[reportPrivateUsage]
from maxkernel.worker.scalars import Data

TOP = "1000-TLP-02-packed-bundles-post-ra.txt"
SEEN = {
    "an empty folder": ("", "missing", "packed-bundles-post-ra"),
    "another compiler's text": ("HloModule x\n\nENTRY %m {\n}\n", "foreign", "HloModule x"),
    "half a program": (
        "     0   :  { %1 = vnop } /* Start region 0 */\n",
        "truncated",
        "bundle 0x0",
    ),
    "an instruction that steers": (
        "     0   :  { %1 = scall 7 } /* Start region 0 :: End region 0 */\n",
        "unknown_control",
        "scall",
    ),
}


@pytest.mark.parametrize(("text", "kind", "said"), SEEN.values(), ids=SEEN)
def test_it_names_what_was_seen_and_the_compiler(
    tmp_path: Path, text: str, kind: str, said: str
) -> None:
    if text:
        (tmp_path / TOP).write_text(text)
    program, problem = _simulate(tmp_path, TARGETS["v6e"], Data({}), None)
    assert program is None
    assert said in problem and f"({kind}; written by {compiler()})" in problem
