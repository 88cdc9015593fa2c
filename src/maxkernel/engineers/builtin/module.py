"""Puts an emitted kernel's module together: docstring, imports, tunables, constants, functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from maxkernel.engineers.builtin.axes import Dim, Dims
from maxkernel.engineers.builtin.helpers import definitions
from maxkernel.engineers.builtin.terms import InputUse, Program
from maxkernel.engineers.builtin.text import Names, doc, number, sequence
from maxkernel.types import TaskInfo, TunableSpace


@dataclass
class Module:
    """The parts of a source file. `constants` are (name, expression, comment)."""

    title: str
    story: str
    tunables: TunableSpace
    constants: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    helpers: set[str] = field(default_factory=set[str])
    functions: list[str] = field(default_factory=list[str])

    def render(self) -> str:
        """The whole file."""
        code = (
            definitions(self.helpers) + "\n\n\n".join(f.strip("\n") for f in self.functions) + "\n"
        )
        imports = ["import jax"]
        if "jnp." in code or any("jnp." in e for e, _ in self.constants.values()):
            imports.append("import jax.numpy as jnp")
        imports.append("from jax.experimental import pallas as pl")
        if "pltpu." in code:
            imports.append("from jax.experimental.pallas import tpu as pltpu")
        top = [
            *(["import functools"] if "functools." in code else []),
            *(["import math"] if "math." in code else []),
        ]
        head = doc(f"{self.title}\n\n{self.story}") + "\n\n"
        head += "".join(f"{line}\n" for line in top) + ("\n" if top else "")
        head += "\n".join(imports) + "\n\n" + tunables_text(self.tunables) + "\n"
        constants = "".join(
            f"{name} = {value}{'  # ' + why if why else ''}\n"
            for name, (value, why) in self.constants.items()
        )
        return f"{head}{chr(10) if constants else ''}{constants}\n\n{code}"


def tunables_text(space: TunableSpace) -> str:
    """The `TUNABLES` literal."""
    items = [
        f'"{name}": ({", ".join(plain(c) for c in choices)}{"," if len(choices) == 1 else ""})'
        for name, choices in space.items()
    ]
    return sequence(items, 0, "TUNABLES = ", "{}")


def plain(value: int | float | bool | str) -> str:
    """A tunable as Python text."""
    return f'"{value}"' if isinstance(value, str) else number(value)


def parameters(info: TaskInfo, names: Names) -> list[str]:
    """Names of the call's arguments by position: arrays by their own name, constants likewise."""
    count = len(info.inputs) + len(info.statics)
    arrays = iter(info.input_names)
    return [names.new(f"constant_{i}" if i in info.statics else next(arrays)) for i in range(count)]


def array_names(info: TaskInfo, arguments: Sequence[str]) -> list[str]:
    """Those of the call's arguments that are arrays."""
    return [name for i, name in enumerate(arguments) if i not in info.statics]


@dataclass(frozen=True)
class Shapes:
    """Writes sizes in terms of the inputs' shapes, so that one source serves every size."""

    program: Program
    inputs: tuple[InputUse, ...]
    arrays: tuple[str, ...]
    """Name in the source of every array input."""
    aliases: tuple[tuple[Dim, Dim], ...] = ()
    """Dimensions of a product's result, and those of its operands that they come from."""

    def of(self, use: InputUse, position: int) -> str:
        """`x.shape[i]`, counted from the end for the last dimension."""
        last = position == len(use.dims) - 1
        return f"{self.arrays[use.index]}.shape[{-1 if last else position}]"

    def dim(self, dim: Dim) -> str:
        """The size of one dimension."""
        if not dim:
            return "1"
        for use in self.inputs:
            if dim in use.dims:
                return self.of(use, use.dims.index(dim))
        for result, operand in self.aliases:
            if result == dim and operand != dim:
                return self.dim(operand)
        if len(dim) > 1:
            return " * ".join(self.dim((axis,)) for axis in dim)
        return self._part(dim)

    def shape(self, dims: Dims) -> str:
        """A whole shape, as the shape of an input (or its leading part) where it is one."""
        for use in self.inputs:
            name = self.arrays[use.index]
            if use.dims == dims:
                return f"{name}.shape"
            if len(dims) > 1 and use.dims[: len(dims)] == dims:
                return f"{name}.shape[:{len(dims)}]"
        comma = "," if len(dims) == 1 else ""
        return f"({', '.join(self.dim(d) for d in dims)}{comma})"

    def _part(self, dim: Dim) -> str:
        """Part of a dimension that a reshape split: its innermost piece keeps its size."""
        wholes = [whole for use in self.inputs for whole in use.dims]
        for whole in [*wholes, *(result for result, _ in self.aliases)]:
            if whole[:1] == dim and len(whole) > 1:
                return f"{self.dim(whole)} // {self.program.extent(whole[1:])}"
        return str(self.program.extent(dim))
