"""What must be computed: a task's files, and what a worker found on importing them."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from maxkernel.types.graph import Graph

TaskFormat = Literal["maxkernel", "jaxbench", "maxkernel-google"]
Static = int | float | bool | str


class ArraySpec(msgspec.Struct, frozen=True):
    """Shape and dtype of one array; `dtype` is numpy's name (`bfloat16`, `int8`, ...)."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


class Tolerance(msgspec.Struct, frozen=True):
    """Element-wise tolerance of a task: |y - oracle| <= atol + rtol * |oracle|."""

    atol: float
    rtol: float
    source: Literal["task", "default"] = "default"


class Task(msgspec.Struct, frozen=True):
    """A task as text. It is data here: only a worker imports it."""

    name: str
    format: TaskFormat
    entry: str
    """File name, a key of `files`, of the module that is imported."""
    files: dict[str, str]
    """Every file of the task by name relative to its folder: text, never code here."""
    digest: str
    """SHA-256 of format and files: what caches and run files know the task by."""
    origin: str = ""
    """Where it was read from, for people."""


class TaskInfo(msgspec.Struct, frozen=True):
    """What a worker found when it imported and traced a task.

    `inputs` and `check_inputs` have the same length; `statics` gives, by position in the call,
    the Python scalars that are constants of the program (positions count all arguments).
    """

    task: str
    input_names: tuple[str, ...]
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    check_inputs: tuple[ArraySpec, ...]
    check_outputs: tuple[ArraySpec, ...]
    statics: dict[int, Static]
    check_statics: dict[int, Static]
    tolerance: Tolerance
    graph: Graph
    """Operator graph at full size."""
    flops: float
    """Arithmetic operations that the reference's matrix products and convolutions need."""
    io_bytes: float
    """Bytes at full size that a plain program moves: inputs as far as they are read, outputs."""
    reference_tpu: bytes
    """The reference, exported for the TPU at full size (jax.export)."""
    least_bytes: float = 0.0
    """Bytes at full size that no program can leave out, whatever the values of its inputs."""
    output_tree: str = ""
    warnings: tuple[str, ...] = ()
