"""Baking tuned constants into a source changes those literals and nothing else."""

from maxkernel.report.bake import bake

SOURCE = '''"""A kernel — with a non-ASCII dash."""

TUNABLES = {"block_rows": (256, 128, 8), "unroll": (True, False)}


def kernel(x, scale, *, block_rows: int = 256, unroll=True):
    """Scales; block_rows = 256 stays in this text."""
    return x  # é, then code
'''


def test_the_winner_becomes_the_default() -> None:
    baked = bake(SOURCE, {"block_rows": 8, "unroll": False})
    assert 'TUNABLES = {"block_rows": (8, 256, 128), "unroll": (False, True)}' in baked
    assert "block_rows: int = 8, unroll=False" in baked
    assert "block_rows = 256 stays" in baked
    assert bake(baked, {"block_rows": 8, "unroll": False}) == baked


def test_nothing_to_bake() -> None:
    assert bake(SOURCE, {}) == SOURCE
    assert bake("def kernel(x):\n    return x\n", {}) == "def kernel(x):\n    return x\n"
    one = "TUNABLES = {'a': (1,)}\ndef kernel(x, a=1):\n    return x\n"
    assert bake(one, {"a": 1}) == one


def test_a_bool_is_not_an_int() -> None:
    source = "TUNABLES = {'a': (1, True, 0)}\ndef kernel(x, a=1):\n    return x\n"
    assert "(True, 1, 0)" in bake(source, {"a": True})
