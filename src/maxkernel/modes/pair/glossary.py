"""One sentence for each Pallas construct that a kernel may hold: what it means to the chip."""

from __future__ import annotations

import ast

from maxkernel.parsing import parse

WORDS: dict[str, str] = {
    "pl.pallas_call": "runs the kernel body once per point of the grid, with its blocks in VMEM",
    "pl.BlockSpec": (
        "the part of an array that one grid step sees: a shape, and a map from grid indices to "
        "block indices; the pipeline copies it in (or out) while the step before runs"
    ),
    "pl.program_id": "the index of this step along an axis of the grid",
    "pl.num_programs": "the number of steps along an axis of the grid",
    "pl.when": "runs what follows only where the condition holds; the scalar core branches",
    "pl.cdiv": "division rounded up: how many blocks cover an extent",
    "pl.ds": "a slice given by start and size, with the size known when the kernel is compiled",
    "pl.multiple_of": "promises that an index is a multiple, so that loads are aligned to tiles",
    "pl.loop": "a loop of the scalar core inside the body",
    "pltpu.CompilerParams": "what the compiler is told: grid semantics, the VMEM limit",
    "pltpu.VMEM": "a scratch buffer in VMEM that lives from one grid step to the next",
    "pltpu.SMEM": "scalars in the scalar core's memory",
    "pltpu.SemaphoreType.DMA": "a semaphore that a copy signals when it is done",
    "pltpu.make_async_copy": "a DMA that the kernel starts and waits for itself",
    "pltpu.PrefetchScalarGridSpec": "scalars loaded first, so that index maps can read them",
    "pltpu.emit_pipeline": "a second pipeline of blocks inside the body",
    "pltpu.repeat": "repeats values along an axis",
    "jnp.dot": "a matrix product on the MXU",
    "jax.lax.dot_general": "a matrix product on the MXU",
    "jnp.exp": "exponentials on the transcendental unit",
    "jnp.exp2": "powers of two on the transcendental unit, cheaper than exp",
    "jnp.tanh": "tanh on the transcendental unit",
    "jax.lax.rsqrt": "reciprocal square roots on the transcendental unit",
    "jnp.sum": "a reduction; over lanes it goes through the cross-lane unit",
    "jnp.mean": "a reduction; over lanes it goes through the cross-lane unit",
    "jnp.max": "a reduction; over lanes it goes through the cross-lane unit",
    "jnp.where": "a select on the vector unit; both sides are computed",
    "jax.lax.fori_loop": "a loop of the scalar core: short bodies keep values in registers",
    "jax.lax.broadcasted_iota": "the index of every element along an axis",
    "jax.ShapeDtypeStruct": "shape and dtype of a result, without data",
    "functools.partial": "fixes constants of the body when the kernel is compiled",
}

UNITS: dict[str, tuple[str, ...]] = {
    "mxu": ("dot", "dot_general", "matmul", "einsum"),
    "eup": ("exp", "exp2", "tanh", "rsqrt", "sqrt", "log", "log1p", "sigmoid", "erf", "reciprocal",
            "logistic", "silu", "gelu", "softplus", "sin", "cos", "pow"),
    "xlu": ("sum", "mean", "max", "min", "argmax", "argmin", "transpose", "cumsum", "roll",
            "swapaxes"),
    "valu": ("where", "maximum", "minimum", "clip", "abs", "multiply", "add", "select"),
}  # fmt: skip
"""Names of calls that issue to a unit of the chip, as far as a name tells."""


def calls_by_line(source: str) -> dict[int, list[str]]:
    """Dotted names of what is called on each line; empty where the source does not parse."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            found.setdefault(node.lineno, []).append(ast.unparse(node.func))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            found.setdefault(node.lineno, []).append("jnp.dot")
        elif isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call):
                    name = ast.unparse(decorator.func)
                    found.setdefault(decorator.lineno, []).append(name)
    return found


def unit_of(call: str) -> str | None:
    """The unit that a call of that name mostly issues to."""
    last = call.rpartition(".")[2]
    return next((unit for unit, names in UNITS.items() if last in names), None)
