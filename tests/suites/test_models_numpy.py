"""Every model workload at check size equals an independent float64 evaluation."""

import numpy_references_models
import numpy_references_models_dense
import pytest
from suite_tasks import as_numpy, centred_error, draw, module, run, wide

from maxkernel import suites

REFERENCES = numpy_references_models.REFERENCES | numpy_references_models_dense.REFERENCES

LIMITS = {"w20": 5e-3, "w23": 3e-3, "w24": 3e-3}
"""w20: float32 angles near 78,000 radians. w23, w24: the result is bfloat16 whatever the inputs."""


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_equals_numpy(name: str) -> None:
    task = module("models", name)
    inputs = draw(task.check_inputs)
    quantised = name in ("w23", "w24")
    results = run(task.reference, inputs if quantised else wide(inputs))
    expected = REFERENCES[name](*as_numpy(inputs))
    expected = expected if isinstance(expected, tuple) else (expected,)
    for y, oracle in zip(results, expected, strict=True):
        assert centred_error(y, oracle) < LIMITS.get(name, 2e-5)


def test_all_tasks_are_covered() -> None:
    assert list(REFERENCES) == [name.partition("_")[0] for name in suites.names("models")]
