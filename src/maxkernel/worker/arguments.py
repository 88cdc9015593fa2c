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
from maxkernel.worker.exporting import rounding_options
from maxkernel.worker.failures import refuse, task_failure
from maxkernel.worker.seeds import key_of, watch_host_draws
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
    found = _trace(module, maker, name) or concrete_arguments(module, maker, name, 0)
    structs = tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in found.arrays)
    return Arguments(structs, found.statics)


def drawing(
    module: TaskModule,
    maker: Maker,
    name: str,
    only: Sequence[int] | None = None,
    limit: int | None = None,
    often: bool = False,
) -> Callable[[int], Arguments]:
    """A function from a seed to arguments; compiled as one program where the maker allows it.

    `only`: positions of the arrays that are wanted; the others are not drawn then. A maker that
    needs concrete values, or draws on the host, is run as it is for each seed. `limit`: bytes that
    the compiled program may take while it draws; raises Refused (kind `memory`) beyond them.
    `often`: compiled for speed, which pays from the second draw on; the last bits of the values
    may then depend on the processor.
    """
    traced = _drawable(module, maker, name)
    if traced is None:
        return lambda seed: _some(concrete_arguments(module, maker, name, seed), only)

    def arrays(key: Any) -> tuple[Any, ...]:
        return _some(split(module, maker(key), name), only).arrays

    try:
        with _strict_dtypes():
            compiled = jax.jit(arrays).lower(key_of(0)).compile(_drawing_options(often))
    except Exception:
        return lambda seed: _some(concrete_arguments(module, maker, name, seed), only)
    held = _drawing_bytes(compiled)
    if limit is not None and held > limit:
        text = f"drawing {name} takes {held / 2**30:.1f} GiB"
        refuse("trace", "memory", f"{module.task.name}: {text}", "draw large inputs piece by piece")
    return lambda seed: Arguments(tuple(compiled(key_of(seed))), traced.statics)


def _drawing_bytes(compiled: Any) -> int:
    """Bytes of memory that a compiled program takes for its results and on the way to them."""
    analysis = compiled.memory_analysis()
    return int(analysis.temp_size_in_bytes + analysis.output_size_in_bytes) if analysis else 0


def draws_apart(module: TaskModule, maker: Maker, name: str) -> bool:
    """Whether some arrays can be drawn without the others."""
    return _drawable(module, maker, name) is not None


def _drawable(module: TaskModule, maker: Maker, name: str) -> Arguments | None:
    """The traced arguments of a maker that draws all its arrays from the key alone."""
    with watch_host_draws() as host_draws:
        traced = _trace(module, maker, name)
    if traced is None or host_draws or not all(isinstance(a, Tracer) for a in traced.arrays):
        return None
    return traced


def _some(arguments: Arguments, only: Sequence[int] | None) -> Arguments:
    if only is None:
        return arguments
    return Arguments(tuple(arguments.arrays[index] for index in only), arguments.statics)


def concrete_arguments(module: TaskModule, maker: Maker, name: str, seed: int) -> Arguments:
    """The arguments drawn from `seed`, as jax arrays on the CPU. Raises Refused (`inputs`)."""
    try:
        with _strict_dtypes():
            made = split(module, maker(key_of(seed)), name)
            arrays = tuple(jax.numpy.asarray(array) for array in made.arrays)
            return Arguments(arrays, made.statics)
    except Exception as error:
        raise task_failure(error, module.task, f"{name} raised", "inputs", ADVICE) from error


def _trace(module: TaskModule, maker: Maker, name: str) -> Arguments | None:
    """What the maker returns for an abstract key; None when it needs a concrete one."""
    seen: list[Arguments] = []

    def traced(key: Any) -> list[Any]:
        seen.append(split(module, maker(key), name))
        return [array for array in seen[-1].arrays if isinstance(array, Tracer)]

    try:
        with _strict_dtypes():
            jax.eval_shape(traced, key_of(0))
    except jax.errors.JAXTypeError:
        return None
    except Exception as error:
        raise task_failure(error, module.task, f"{name} raised", "inputs", ADVICE) from error
    return seen[-1]


def _drawing_options(often: bool) -> dict[str, Any]:
    """Random bits take seconds to compile: hardly any optimisation, or none for a single draw.

    With none, and without excess precision, the values are those of the maker run eagerly.
    """
    level = 1 if often else 0
    return {**rounding_options(), "xla_backend_optimization_level": level}


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
