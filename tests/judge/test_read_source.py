"""Reading a candidate's source without running it."""

import pytest

from maxkernel.judge import read_source
from maxkernel.types import Failure


def test_tunables_are_read_as_a_literal() -> None:
    source = 'TUNABLES = {"rows": (256, 8), "mode": ["a"]}\ndef kernel(x, *, rows, mode): ...\n'
    assert read_source(source) == {"rows": (256, 8), "mode": ("a",)}
    assert read_source("def kernel(x): ...\n") == {}
    assert read_source("TUNABLES: dict = {'a': (1,)}\nkernel = print\n") == {"a": (1,)}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def kernel(x:\n", "not valid Python"),
        ("def kernels(x): ...\n", "no function `kernel`"),
        ("def kernel(x): ...\nTUNABLES = make()\n", "not a literal"),
        ("def kernel(x): ...\nTUNABLES = [1]\n", "not a dict"),
        ("def kernel(x): ...\nTUNABLES = {'a': ()}\n", "no choices"),
        ("def kernel(x): ...\nTUNABLES = {'a b': (1,)}\n", "identifier"),
        ("def kernel(x): ...\nTUNABLES = {'a': (None,)}\n", "number, bool or string"),
        ("def kernel(x):\n    return '" + "x" * (1 << 20) + "'\n", "larger than"),
        ("\0", "not valid Python"),
    ],
)
def test_unusable_source(source: str, said: str) -> None:
    found = read_source(source)
    assert isinstance(found, Failure)
    assert found.kind == "syntax"
    assert said in found.message
