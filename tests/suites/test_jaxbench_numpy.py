"""Every JaxBench reference at check size equals an independent float64 evaluation."""

import numpy_references_attention
import numpy_references_conv
import numpy_references_dense
import pytest
from suite_tasks import as_numpy, centred_error, draw, module, run, wide

REFERENCES = (
    numpy_references_attention.REFERENCES
    | numpy_references_dense.REFERENCES
    | numpy_references_conv.REFERENCES
)
LIMITS = {"16p": 5e-4}
"""Signed row sums near zero make 16p ill-conditioned in float32."""


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_equals_numpy(name: str) -> None:
    task = module("jaxbench", name)
    values = wide(draw(task.check_inputs))
    (y,) = run(task.reference, values)
    assert centred_error(y, REFERENCES[name](*as_numpy(values))) < LIMITS.get(name, 2e-5)


def test_all_tasks_are_covered() -> None:
    assert len(REFERENCES) == 50
