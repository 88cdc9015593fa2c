"""test_kernel.py of a bundle: a check of the kernel that needs jax and pytest alone."""

from __future__ import annotations

import ast
import textwrap

from maxkernel.errors import TaskError
from maxkernel.judge import Prepared
from maxkernel.parsing import parse
from maxkernel.types import Task

_HEADER = '''\
"""Checks kernel.py against the reference below, on CPU, with every Pallas kernel interpreted.

Run: pytest test_kernel.py      (needs jax, numpy and pytest; no TPU, no maxkernel)
"""
'''

_BODY = """

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import kernel as candidate

ATOL, RTOL = {atol!r}, {rtol!r}


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch):
    if jax.default_backend() != "tpu":
        interpreted = functools.partial(pl.pallas_call, interpret=True)
        monkeypatch.setattr(pl, "pallas_call", interpreted)


def _flat(outputs):
    return [np.asarray(x) for x in jax.tree.leaves(outputs)]


@pytest.mark.parametrize("seed", [0, 1])
def test_kernel_equals_reference(seed):
    arguments = {arguments}
    got = _flat(candidate.kernel(*arguments))
    want = _flat({reference}(*arguments))
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
        # Both sides round: the task's tolerance, or the rounding of the reference's own dtype.
        ulp = 2.0 ** -7 if {low_precision} else 2.0 ** -20
        allowed = np.maximum(ATOL + RTOL * np.abs(theirs), 4 * ulp * np.abs(theirs))
        worst = np.max(np.abs(mine - theirs) - allowed, initial=-np.inf)
        assert worst <= 0, f"an element exceeds its allowance by {{worst:.3g}}"
"""

_SEEDED = '''

def _arguments(seed):
    """The task fixes its own seed; this replaces it."""
    make, plain = jax.random.key, jax.random.PRNGKey
    jax.random.key = jax.random.PRNGKey = lambda *_, **__: make(seed)
    try:
        return {call}
    finally:
        jax.random.key, jax.random.PRNGKey = make, plain
'''


def render_test(task: Task, prepared: Prepared) -> str:
    """The text of test_kernel.py for a task in any of the three formats."""
    tolerance = prepared.info.tolerance
    low = any(s.dtype in ("bfloat16", "float16") for s in prepared.info.outputs)
    reference, arguments, helper = _calls(task)
    body = _BODY.format(
        atol=tolerance.atol,
        rtol=tolerance.rtol,
        arguments=arguments,
        reference=reference,
        low_precision=low,
    )
    return (
        _HEADER + "\n# --- the task, as it was judged ---\n\n" + _task_source(task) + helper + body
    )


def _calls(task: Task) -> tuple[str, str, str]:
    """Name of the reference, expression for its arguments, helper code that they need."""
    if task.format == "maxkernel":
        has_check = "check_inputs" in _functions(task.files[task.entry])
        maker = "check_inputs" if has_check else "inputs"
        return "reference", f"_tuple({maker}(jax.random.key(seed)))", _TUPLE
    if task.format == "jaxbench":
        return "workload", "_arguments(seed)", _SEEDED.format(call="create_inputs()")
    if task.format == "maxkernel-google":
        call = "[*(made := get_inputs())[0], *made[1]]"
        return "computation", "_arguments(seed)", _SEEDED.format(call=call)
    raise TaskError(f"no test file for tasks in the format {task.format!r}")


_TUPLE = """

def _tuple(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)
"""


def _task_source(task: Task) -> str:
    """All files of the task in one, the entry last, without their module docstrings' quotes."""
    names = [name for name in task.files if name != task.entry] + [task.entry]
    return "\n\n".join(_as_section(task.files[name]) for name in names)


def _as_section(source: str) -> str:
    tree = parse(source)
    lines = source.splitlines()
    drop: set[int] = set()
    comment: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            drop |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    docstring = ast.get_docstring(tree)
    if docstring is not None:
        first = tree.body[0]
        drop |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        comment = textwrap.indent(docstring, "# ", lambda _: True).splitlines()
    kept = [line for number, line in enumerate(lines, 1) if number not in drop]
    return "\n".join([*(line.rstrip() for line in comment), *kept]).strip("\n") + "\n"


def _functions(source: str) -> set[str]:
    return {n.name for n in parse(source).body if isinstance(n, ast.FunctionDef)}
