"""Damaged artifacts and damaged programs: typed errors, whatever is wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import mosaic_zoo
import mosaic_zoo_dma
import mosaic_zoo_ops
import numpy as np
import pytest
from mosaic_twin import export, normal

from maxkernel.worker import mosaic
from maxkernel.worker.mosaic.syntax import Block, Func, Op, Type

X = normal(64, 128)
LIMITS = mosaic.Options(steps=2_000, seconds=1.0, memory_bytes=1 << 26)
ZOO = mosaic_zoo.ZOO | mosaic_zoo_dma.ZOO | mosaic_zoo_ops.ZOO


class Damage:
    """Random edits of a function: operands, attributes, types."""

    def __init__(self, func: Func, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.count = len(func.types)
        self.rate = 2.0 / sum(1 for _ in func.walk())

    def hit(self) -> bool:
        return self.generator.random() < self.rate

    def number(self, value: Any) -> Any:
        choices = [0, 1, -1, 7, 1 << 20, -(1 << 63)]
        return type(value)(choices[self.generator.integers(len(choices))])

    def attribute(self, value: Any) -> Any:
        if isinstance(value, (bool, int, float)):
            return self.number(value)
        if isinstance(value, tuple) and value and isinstance(value[0], int):
            return tuple(self.number(v) if self.hit() else v for v in value)
        return "surprise"

    def op(self, op: Op) -> Op:
        operands, attrs = op.operands, op.attrs
        if operands and self.hit():
            at, other = self.generator.integers(len(operands)), self.generator.integers(self.count)
            operands = (*operands[:at], int(other), *operands[at + 1 :])
        if attrs and self.hit():
            name = sorted(attrs)[self.generator.integers(len(attrs))]
            attrs = {**attrs, name: self.attribute(attrs[name])}
        return replace(
            op, operands=operands, attrs=attrs, regions=tuple(map(self.block, op.regions))
        )

    def block(self, block: Block) -> Block:
        kept = [self.op(op) for op in block.ops[:-1] if not self.hit()]
        return Block(block.args, (*kept, *map(self.op, block.ops[-1:])))

    def type(self, t: Type) -> Type:
        if not t.shape or not self.hit():
            return t
        at = self.generator.integers(len(t.shape))
        return replace(
            t, shape=(*t.shape[:at], int(self.generator.integers(9)), *t.shape[at + 1 :])
        )


@pytest.mark.parametrize(
    "name", ["flash", "scalar_prefetch", "dma", "emit_pipeline", "roll", "int_bits"]
)
def test_damaged_programs_raise_typed_errors_only(name: str) -> None:
    function, arrays = ZOO[name]
    (kernel,) = mosaic.load(export(function, arrays)).kernels
    operands = [np.asarray(a) for a in arrays]
    outcomes: set[str] = set()
    for seed in range(60):
        damage = Damage(kernel.body, seed)
        types = tuple(map(damage.type, kernel.body.types))
        body = replace(kernel.body, body=damage.block(kernel.body.body), types=types)
        try:
            mosaic.launch(mosaic.compile_kernel(replace(kernel, body=body), LIMITS), operands)
            outcomes.add("done")
        except mosaic.MosaicError as error:
            outcomes.add(type(error).__name__)
    assert len(outcomes) > 1


FUZZ = """
import faulthandler, os, sys
import numpy as np
from maxkernel.worker import mosaic

artifact, rounds = bytearray(open(sys.argv[1], "rb").read()), int(sys.argv[2])
x = np.zeros((64, 128), np.float32)
limits = mosaic.Options(steps=10_000, seconds=2, memory_bytes=1 << 26)
generator = np.random.default_rng(int(sys.argv[3]))

def attempt(broken):
    faulthandler.dump_traceback_later(12, exit=True)
    try:
        program = mosaic.load(broken)
        mosaic.gather_facts(program)
        mosaic.run(program, [x], limits)
    except mosaic.MosaicError:
        os._exit(10)
    os._exit(0)

fates = []
for _ in range(rounds):
    broken = artifact.copy()
    for _ in range(generator.integers(1, 4)):
        broken[generator.integers(len(broken))] = generator.integers(256)
    child = os.fork()
    if child == 0:
        attempt(bytes(broken))
    fates.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(*fates)
"""


def test_damaged_artifacts_raise_typed_errors_only(tmp_path: Any) -> None:
    """MLIR's own reader may die of damaged bytes, or hang: that is what the worker is for."""
    path = tmp_path / "artifact"
    path.write_bytes(export(mosaic_zoo.accumulate, [X]))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, str(path), "40", "5"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    stuck = re.findall(r"Timeout.*\n.*\n +File \"(.*)\", line \d+ in (\w+)", done.stderr)
    assert len(stuck) == done.stderr.count("Timeout (")
    assert all(file.endswith("artifact.py") and name == "_load" for file, name in stuck), stuck
    fates = [int(fate) for fate in done.stdout.split()]
    assert len(fates) == 40 and 10 in fates
    assert fates.count(1) == len(stuck)
