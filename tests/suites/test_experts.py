"""Every expert kernel, interpreted at check size, equals its reference."""

import ast
import functools
import types

import numpy as np
import pytest
from jax.experimental import pallas as pl
from suite_tasks import centred_error, draw, module, run, wide

from maxkernel import suites

EXPERTS = [
    (suite, name)
    for suite in ("jaxbench", "models")
    for name in suites.names(suite)
    if suites.entry(suite, name).expert
]


def source(suite: str, name: str) -> str:
    candidate = suites.expert(suite, name)
    assert candidate is not None
    return candidate.source


@pytest.mark.parametrize(("suite", "name"), EXPERTS)
def test_expert_equals_reference(suite, name, monkeypatch) -> None:
    monkeypatch.setattr(pl, "pallas_call", functools.partial(pl.pallas_call, interpret=True))
    expert = types.ModuleType(name)
    exec(compile(source(suite, name), name, "exec"), expert.__dict__)
    task = module(suite, name)
    inputs = draw(task.check_inputs)
    (oracle,) = run(task.reference, wide(inputs))
    (expected,) = run(task.reference, inputs)
    (y,) = run(expert.kernel, inputs)
    assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
    assert np.isfinite(np.asarray(y, np.float32)).all()
    assert centred_error(y, oracle) < max(0.004, 1.5 * centred_error(expected, oracle))


@pytest.mark.parametrize(("suite", "name"), EXPERTS)
def test_tunables_are_a_literal_that_names_arguments(suite, name) -> None:
    tree = ast.parse(source(suite, name))
    (tunables,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TUNABLES"
    )
    (kernel,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "kernel")
    names = [argument.arg for argument in kernel.args.args][-len(tunables) :]
    defaults = [ast.literal_eval(value) for value in kernel.args.defaults][-len(tunables) :]
    assert dict(zip(names, defaults, strict=True)) == {k: v[0] for k, v in tunables.items()}


def test_every_published_pallas_kernel_has_a_rival() -> None:
    for name in suites.names("jaxbench"):
        assert bool(suites.published(name).pallas_ms) == bool(suites.entry("jaxbench", name).expert)
    assert suites.expert("jaxbench", "12p") is None
