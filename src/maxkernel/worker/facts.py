"""Facts about a captured program, read from its jaxpr."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false, reportMissingTypeStubs=false

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax._src import core
from jax._src.interpreters import partial_eval

from maxkernel.types.artifact import ArtifactFacts, PallasCall
from maxkernel.types.task import ArraySpec
from maxkernel.worker.jaxprs import PALLAS, constants, equations, nested, open_jaxpr, rewrite
from maxkernel.worker.traffic import fetches

FORBIDDEN = frozenset(
    "pure_callback io_callback debug_callback debug_print infeed outfeed ffi_call custom_call "
    "tpu_custom_call platform_index platform_dependent custom_partitioning copy_to_host_async "
    "host_local_array_to_global_array run_state".split()
)
"""Primitives that leave the device or choose the program by platform."""


def facts_of(jaxpr: Any, outputs: Sequence[ArraySpec]) -> ArtifactFacts:
    """Facts of the full-size program, a closed jaxpr with its outputs; nested ones included."""
    return ArtifactFacts(
        pallas_calls=_pallas_calls(jaxpr),
        outputs=tuple(outputs),
        forbidden=tuple(sorted(set(forbidden(jaxpr)))),
        constant_bytes=_constant_bytes(jaxpr),
        primitives=dict(Counter(eqn.primitive.name for eqn in equations(jaxpr))),
    )


def _pallas_calls(jaxpr: Any) -> tuple[PallasCall, ...]:
    reaching = Counter(_identities(_live(jaxpr)))
    calls: list[PallasCall] = []
    for equation in equations(jaxpr):
        if equation.primitive.name == PALLAS:
            identity = id(equation.params["jaxpr"])
            reaches = reaching[identity] > 0
            reaching[identity] -= reaches
            calls.append(_describe(equation, reaches))
    return tuple(calls)


def _identities(jaxpr: Any) -> Iterator[int]:
    """Kernels of the calls of which some result is used; dead-code removal keeps the others."""
    inner = open_jaxpr(jaxpr)
    used = {atom for eqn in inner.eqns for atom in eqn.invars if isinstance(atom, core.Var)}
    used |= {atom for atom in inner.outvars if isinstance(atom, core.Var)}
    for equation in inner.eqns:
        if equation.primitive.name != PALLAS:
            for _, body in nested(equation):
                yield from _identities(body)
        elif not used.isdisjoint(equation.outvars):
            yield id(equation.params["jaxpr"])


def _live(jaxpr: Any) -> Any:
    """The jaxpr without what its outputs do not depend on; products with literal zeros cut."""
    cut = rewrite(open_jaxpr(jaxpr), _cut_zero_product)
    live, _ = partial_eval.dce_jaxpr(cut, [True] * len(cut.outvars), instantiate=True)
    return live


def _cut_zero_product(equation: Any) -> Any:
    """`x * 0` becomes `0 * 0`, so that it no longer depends on x."""
    if equation.primitive.name != "mul":
        return equation
    for atom in equation.invars:
        if isinstance(atom, core.Literal) and not np.any(np.asarray(atom.val)):
            zeros = [
                other
                if isinstance(other, core.Literal)
                else core.Literal(np.zeros((), other.aval.dtype), atom.aval)
                for other in equation.invars
            ]
            return equation.replace(invars=zeros)
    return equation


def _describe(equation: Any, reaches: bool) -> PallasCall:
    params = equation.params
    mapping = params["grid_mapping"]
    piped = [block for block in mapping.block_mappings if _is_pipelined(block)]
    moves = [fetches(block, mapping.grid) for block in piped]
    whole = len(piped) == len(mapping.block_mappings) and None not in moves
    scratch = [
        math.prod(aval.shape) * _itemsize(aval.dtype)
        for aval in mapping.scratch_avals
        if str(getattr(aval, "memory_space", "")) == "vmem"
    ]
    name = params.get("name") or params["jaxpr"].debug_info.func_name
    return PallasCall(
        name=str(name),
        grid=tuple(n if isinstance(n, int) else -1 for n in mapping.grid),
        blocks=tuple(_block_shape(block) for block in mapping.block_mappings),
        block_bytes=int(sum(_block_bytes(block) for block in piped if _space(block) != "smem")),
        scratch_bytes=int(sum(scratch)),
        moved_bytes=sum(
            _block_bytes(block) * (count or 0)
            for block, count in zip(piped, moves, strict=True)
            if whole
        ),
        reaches_output=reaches,
        interpret=bool(params["interpret"]),
    )


def _block_shape(block: Any) -> tuple[int, ...]:
    """Sizes of a block; a squeezed dimension counts 1."""
    return tuple(
        size if isinstance(size, int) else int(getattr(size, "block_size", None) or 1)
        for size in block.block_shape
    )


def _block_bytes(block: Any) -> float:
    return math.prod(_block_shape(block)) * _itemsize(block.array_aval.dtype)


def _space(block: Any) -> str:
    return str(getattr(block.block_aval, "memory_space", "default"))


def _is_pipelined(block: Any) -> bool:
    """Whether the pipeline copies blocks of the operand; pl.ANY and HBM refs stay in place."""
    return _space(block) in ("default", "vmem", "smem")


def _itemsize(dtype: Any) -> float:
    try:
        return jnp.dtype(dtype).itemsize
    except TypeError:
        return 0.0


def forbidden(jaxpr: Any) -> Iterator[str]:
    """What a program may not hold: callbacks, effects, work on the host. With repetitions."""
    for effect in jaxpr.effects:
        yield f"effect {type(effect).__name__}"
    for equation in equations(jaxpr, inside_pallas=True):
        name = equation.primitive.name
        if name in FORBIDDEN:
            yield name
        if getattr(equation.ctx, "compute_type", None):
            yield f"compute_on {equation.ctx.compute_type}"
    for equation in equations(jaxpr):
        for var in equation.outvars:
            space = str(getattr(var.aval, "memory_space", "")).lower()
            if "host" in space:
                yield f"memory space {space}"


def _constant_bytes(jaxpr: Any) -> int:
    seen: dict[int, int] = {}

    def visit(part: Any) -> None:
        for data in constants(part):
            seen[id(data)] = int(np.asarray(data).nbytes)
        for equation in open_jaxpr(part).eqns:
            for atom in equation.invars:
                if isinstance(atom, core.Literal) and np.ndim(atom.val):
                    seen[id(atom.val)] = int(np.asarray(atom.val).nbytes)
            for _, inner in nested(equation):
                visit(inner)

    visit(jaxpr)
    return sum(seen.values())
