"""A task ready to be checked: its reference and oracle, compiled once at check size."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax

from maxkernel.targets import TARGETS
from maxkernel.types.task import Task
from maxkernel.worker import work
from maxkernel.worker.arguments import Arguments, abstract_arguments, drawing
from maxkernel.worker.exporting import compile_options, evaluate
from maxkernel.worker.failures import task_failure
from maxkernel.worker.graph import graph_of
from maxkernel.worker.jaxprs import equations
from maxkernel.worker.oracle import promoted_function
from maxkernel.worker.task_module import TaskModule, load
from maxkernel.worker.trace import Traced, trace_reference
from maxkernel.worker.uses import Use, uses

FLOAT64_FLOPS_LIMIT = 4e10
"""Operations of products at check size above which the oracle works in float32.

A laptop core does about 1e10 float64 operations a second in XLA's CPU products.
"""

Precision = Literal["float64", "float32"]


@dataclass(frozen=True)
class Prepared:
    """A task ready to be checked: compiled reference and oracle."""

    module: TaskModule
    traced: Traced
    draw: Callable[[int], Arguments]
    uses: Sequence[Use]
    """What the reference does with each input."""
    reference: Any
    oracle: Any
    precision: Precision
    f32_matmul: Literal["exact", "bf16"]
    """How a kernel's f32 products at default precision are executed: as the MXU does, in bf16,
    unless the reference asks for no more itself."""


ANY_TARGET = TARGETS["v6e"]
"""What the reference is traced for here: it computes the same on every target."""

_prepared: dict[str, Prepared] = {}


def prepare(task: Task) -> Prepared:
    """Traces and compiles reference and oracle at check size, once per task."""
    found = _prepared.get(task.digest)
    if found is None:
        _prepared.clear()
        module = load(task)
        maker, name = (module.check, "check_inputs") if module.check else (module.full, "inputs")
        arguments = abstract_arguments(module, maker, name)
        traced = trace_reference(module, arguments, ANY_TARGET, [])
        found = _compile(module, traced, drawing(module, maker, name, often=True))
        _prepared[task.digest] = found
    return found


def _compile(module: TaskModule, traced: Traced, draws: Callable[[int], Arguments]) -> Prepared:
    inputs = traced.arguments.arrays
    plain = evaluate(traced.jaxpr.jaxpr, traced.jaxpr.consts)
    graph = graph_of(traced.jaxpr)
    try:
        reference = _build(plain, inputs)
    except Exception as error:
        raise task_failure(
            error, module.task, "the reference cannot be compiled for the CPU", "reference"
        ) from error
    oracle, precision = _oracle(traced, work.flops(graph), plain)
    return Prepared(
        module=module,
        traced=traced,
        draw=draws,
        uses=uses(graph),
        reference=reference,
        oracle=oracle,
        precision=precision,
        f32_matmul=f32_products(traced.jaxpr),
    )


def _oracle(traced: Traced, operations: float, plain: Any) -> tuple[Any, Precision]:
    inputs = traced.arguments.arrays
    if operations <= FLOAT64_FLOPS_LIMIT:
        try:
            with jax.enable_x64(True):
                return _build(promoted_function(traced.jaxpr, "float64"), inputs), "float64"
        except Exception as error:
            sys.stderr.write(f"no float64 oracle: {type(error).__name__}: {error}\n")
    try:
        return _build(promoted_function(traced.jaxpr, "float32"), inputs), "float32"
    except Exception:
        with jax.default_matmul_precision("highest"):
            return _build(plain, inputs), "float32"


def f32_products(jaxpr: Any) -> Literal["exact", "bf16"]:
    """How exact a kernel's f32 products at default precision need to be executed."""
    for equation in equations(jaxpr):
        if equation.primitive.name not in ("dot_general", "conv_general_dilated"):
            continue
        wide = any(str(v.aval.dtype) == "float32" for v in equation.invars)
        if wide and "HIGH" not in str(equation.params.get("precision")):
            return "exact"
    return "bf16"


def _build(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """The function compiled for the CPU at the shapes of `inputs`."""
    structs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in inputs]
    return jax.jit(function).lower(*structs).compile(compile_options())
