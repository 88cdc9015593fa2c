"""The guide is true: its names exist, its examples compile and run, its figures are right."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from maxkernel.knowledge import SCOPED_VMEM_MIB, SHEET_LIMIT, api_sheet, hardware
from maxkernel.knowledge.extract import Extract, extract, jax_folder
from maxkernel.knowledge.sheet import render_sheet
from maxkernel.targets import TARGETS

GUIDE = Path(__file__).parents[2] / "src" / "maxkernel" / "knowledge" / "guide"
NAMES = re.compile(r"\b(?:pl|pltpu)\.[A-Za-z_]+")
SAID_TO_BE_GONE = {
    "pltpu.ANY",
    "pltpu.TPUCompilerParams",
    "pltpu.TPUMemorySpace",
    "pl.load",
    "pl.store",
    "pl.dot",
    "pltpu.repeat",
}


@pytest.fixture(scope="module")
def names():
    return {name.name: name for name in extract(jax_folder()).names}


@pytest.mark.parametrize("path", sorted(GUIDE.glob("*.md")), ids=lambda path: path.stem)
def test_every_name_in_the_guide_exists(path: Path, names):
    for name in set(NAMES.findall(path.read_text())) - SAID_TO_BE_GONE:
        assert name in names and not names[name].deprecated, f"{path.name}: {name}"


def test_names_said_to_be_gone_are_gone(names):
    for name in SAID_TO_BE_GONE:
        assert name not in names or names[name].deprecated


def test_examples_compile_and_run():
    script = Path(__file__).with_name("compile_examples.py")
    done = subprocess.run(
        [sys.executable, str(script), str(GUIDE), "v5e:2x2", "v6e:2x2"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.strip().splitlines()
    assert len(lines) == sum(path.read_text().count("```python\n") for path in GUIDE.glob("*.md"))
    assert all(line.endswith(" ok") for line in lines), lines


def test_the_sheet_is_short_and_of_this_jax(names):
    sheet = api_sheet()
    assert len(sheet) <= SHEET_LIMIT
    assert "pltpu.CompilerParams(dimension_semantics=None" in sheet
    usable, _, gone = sheet.partition("Gone or deprecated")
    for name in set(NAMES.findall(usable)):
        assert name in names and not names[name].deprecated, name
    assert "pltpu.TPUCompilerParams" in gone


def test_a_name_that_jax_loses_leaves_the_sheet():
    empty = render_sheet(Extract("9.9", (), (), ()))
    assert "jax 9.9" in empty and "pl.BlockSpec(" not in empty


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_every_generation_is_described(target):
    text = hardware(target)
    assert f"{target.vmem_bytes >> 20} MiB per core" in text
    assert f"gets {SCOPED_VMEM_MIB[target.name]} MiB" in text
    assert ("two TensorCores" in text) == (target.cores == 2)
