"""The installed jax, read as text: what is found agrees with what the package really has."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from maxkernel.errors import EnvironmentFault
from maxkernel.knowledge.extract import extract, jax_folder
from maxkernel.knowledge.signature import definition, signature

REAL = """
import inspect, json, warnings
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
warnings.simplefilter("ignore")
names = {}
for alias, module in (("pl", pl), ("pltpu", pltpu)):
    for name in dir(module):
        if name.startswith("_"):
            continue
        value = getattr(module, name)
        if inspect.ismodule(value):
            continue
        try:
            parameters = list(inspect.signature(value).parameters)
        except (TypeError, ValueError):
            parameters = None
        names[f"{alias}.{name}"] = parameters if inspect.isfunction(value) else None
print(json.dumps(names))
"""


@pytest.fixture(scope="module")
def found():
    return extract(jax_folder())


@pytest.fixture(scope="module")
def real():
    done = subprocess.run(
        [sys.executable, "-c", REAL],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={"JAX_PLATFORMS": "cpu", "PATH": "/usr/bin:/bin"},
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_reading_does_not_import_jax():
    code = (
        "import sys; from maxkernel.knowledge.extract import extract, jax_folder;"
        "extract(jax_folder()); print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_public_name_is_found(found, real):
    assert set(real) - {name.name for name in found.names} == set()


def test_signatures_agree_with_the_package(found, real):
    texts = {name.name: name.signature for name in found.names}
    compared = 0
    for name, parameters in real.items():
        text = texts[name]
        if parameters is None or not text.startswith(f"{name}("):
            continue
        for parameter in parameters:
            assert parameter in text, f"{name}: {parameter} is not in {text}"
        compared += 1
    assert compared > 30


def test_moved_names_carry_the_advice_of_jax(found):
    names = {name.name: name for name in found.names}
    assert "pl.semaphore_wait" in names["pltpu.semaphore_wait"].deprecated
    assert "pltpu.TPUCompilerParams" not in names


def test_operations_are_those_that_the_compiler_takes(found):
    """Tried with the real compiler: `sort`, `cumsum`, `rev` are refused, the others compile."""
    assert {"dot_general", "exp", "reduce_sum", "eq", "select_n"} <= set(found.primitives)
    assert not {"sort", "cumsum", "rev", "dynamic_slice", "erfc"} & set(found.primitives)


def test_error_texts_keep_their_places(found):
    texts = [error.text for error in found.errors]
    assert any("divisible by 8 and 128" in text for text in texts)
    assert any("Only single (1) and double (2) buffering" in text for text in texts)
    assert len(texts) == len(set(texts))


def test_python_without_jax_is_an_environment_fault(tmp_path: Path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho\n")
    fake.chmod(0o755)
    with pytest.raises(EnvironmentFault, match="has no jax"):
        jax_folder(str(fake))


def test_signature_of_every_kind_of_definition():
    source = inspect.cleandoc(
        """
        def f(a: int, *, b=1, **c): ...
        class E(enum.Enum):
            X = 1
            Y = 2
        @dataclass
        class D:
            a: int
            b: int = field(kw_only=True, default=3)
            c: int = field(init=False)
        class I:
            def __init__(self, x, *args): ...
        V = 1
        """
    )
    module = ast.parse(source)
    texts = [signature(definition(module, name), name) for name in "FEDIV".replace("F", "f")]
    assert texts == [
        "f(a, *, b=1, **c)",
        "E: X, Y",
        "D(a, *, b=3)",
        "I(x, *args)",
        "V = 1",
    ]
    assert definition(module, "missing") is None
