"""Splits what an input maker returned into arrays and the Python scalars among them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import jax
import numpy as np
from jax.core import Tracer

from maxkernel.types.task import ArraySpec, Static
from maxkernel.worker.failures import refuse, task_failure
from maxkernel.worker.seeds import key_of
from maxkernel.worker.specs import spec_of, unusable
from maxkernel.worker.task_module import Maker, TaskModule

ADVICE = "inputs must return arrays (and Python scalars) of at most 32 bits, none of them empty"


@dataclass(frozen=True)
class Arguments:
    """Arguments of one call in order; `statics` by position among all of them."""

    arrays: tuple[Any, ...]
    statics: dict[int, Static]

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """Shape and dtype of each array."""
        return tuple(spec_of(array) for array in self.arrays)


def bind(function: Callable[..., Any], statics: Mapping[int, Static]) -> Callable[..., Any]:
    """`function` of the arrays alone, with the statics in their places."""

    def call(*arrays: Any) -> Any:
        rest = iter(arrays)
        total = len(arrays) + len(statics)
        return function(*(statics[i] if i in statics else next(rest) for i in range(total)))

    return call


def abstract_arguments(module: TaskModule, maker: Maker, name: str) -> Arguments:
    """Shapes of the arguments without drawing them where the maker can be traced.

    A maker that needs concrete values is run; the worker's memory limit bounds it.
    Raises Refused (kind `inputs`).
    """
    seen: list[Arguments] = []

    def traced(key: Any) -> list[Any]:
        seen.append(split(module, maker(key), name))
        return [a for a in seen[-1].arrays if isinstance(a, Tracer)]

    try:
        with _strict_dtypes():
            jax.eval_shape(traced, key_of(0))
    except jax.errors.JAXTypeError:
        return concrete_arguments(module, maker, name, 0)
    except jax.errors.JaxRuntimeError as error:
        raise task_failure(error, module.task, f"{name} ran out of memory", "inputs") from error
    except Exception as error:
        raise task_failure(error, module.task, f"{name} raised", "inputs", ADVICE) from error
    found = seen[-1]
    structs = tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in found.arrays)
    return Arguments(structs, found.statics)


def concrete_arguments(module: TaskModule, maker: Maker, name: str, seed: int) -> Arguments:
    """The arguments drawn from `seed`, as jax arrays on the CPU. Raises Refused (`inputs`)."""
    try:
        with _strict_dtypes():
            made = split(module, maker(key_of(seed)), name)
            arrays = tuple(jax.numpy.asarray(array) for array in made.arrays)
            return Arguments(arrays, made.statics)
    except Exception as error:
        raise task_failure(error, module.task, f"{name} raised", "inputs", ADVICE) from error


def split(module: TaskModule, made: Any, name: str) -> Arguments:
    """Arrays and statics of what a maker returned. Raises Refused (kind `inputs`)."""
    items = list(cast("Sequence[Any]", made)) if isinstance(made, tuple | list) else [made]
    arrays: list[Any] = []
    statics: dict[int, Static] = {}
    for position, item in enumerate(items):
        if isinstance(item, bool | int | float | str):
            statics[position] = item
        elif isinstance(item, jax.Array | np.ndarray | np.generic):
            problem = unusable(item)
            if problem:
                refuse(
                    "trace",
                    "inputs",
                    f"{module.task.name}: argument {position} of {name} {problem}",
                    ADVICE,
                )
            arrays.append(item)
        else:
            refuse(
                "trace",
                "inputs",
                f"{module.task.name}: argument {position} of {name} is a"
                f" {type(item).__name__}, not an array or a Python scalar",
                "flatten nested inputs into positional arrays",
            )
    if not arrays:
        refuse("trace", "inputs", f"{module.task.name}: {name} returns no array", ADVICE)
    return Arguments(tuple(arrays), statics)


@contextmanager
def _strict_dtypes() -> Generator[None]:
    """jax answers a request for a 64-bit dtype with a warning and 32 bits: an error here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore")
        warnings.filterwarnings("error", message="Explicitly requested dtype")
        yield
