"""The strategy for rotations, and its source."""

from __future__ import annotations

import math

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.costs import itemsize, memory_seconds
from maxkernel.engineers.builtin.module import Module, array_names, parameters
from maxkernel.engineers.builtin.rotary.match import rotations
from maxkernel.engineers.builtin.text import Names
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo

STRATEGY = "one pass, halves exchanged by turning lanes"
_STORY = (
    "x cos + (halves of x exchanged) sin, with the sign in the table of sines: whole vectors,\n"
    "nothing is cut and put together again."
)
_BLOCKS = (64, 128, 32)
"""Positions of a block."""
_TURN = '''def turn(x_ref, cos_ref, sin_ref, out_ref):
    """One block of positions, some at a time: a position's heads share their angles."""
    half = x_ref.shape[-1] // 2

    def position(i):
        x = x_ref[i].astype(jnp.float32)
        if half % 64 == 0:
            exchanged = pltpu.roll(x, half, 1)
        else:
            exchanged = jnp.concatenate([x[:, half:], x[:, :half]], axis=1)
        row = pl.ds(i, 1)
        out = x * cos_ref[row, :] + exchanged * sin_ref[row, :]
        out_ref[i] = out.astype(out_ref.dtype)

    def positions(c, carry):
        for p in range(TOGETHER):
            position(c * TOGETHER + p)
        return carry

    jax.lax.fori_loop(0, x_ref.shape[0] // TOGETHER, positions, 0)
'''
_KERNEL = '''def kernel({x}, {cos}, {sin}, *, block={block}):
    """Positions in blocks, their heads beside one another."""
    *positions, heads, width = {x}.shape
    count = math.prod(positions)
    rows = {x}.reshape(count, heads, width)
    tables = (*positions, 1, width // 2)
    cosines = jnp.broadcast_to({cos}, tables).reshape(count, -1).astype(jnp.float32)
    sines = jnp.broadcast_to({sin}, tables).reshape(count, -1).astype(jnp.float32)
    cosines = jnp.concatenate([cosines, cosines], axis=1)
    sines = jnp.concatenate([-sines, sines], axis=1)
    block = min(block, pl.cdiv(count, TOGETHER) * TOGETHER)
    array = pl.BlockSpec((block, heads, width), lambda i: (i, 0, 0))
    table = pl.BlockSpec((block, width), lambda i: (i, 0))
    out = pl.pallas_call(
        turn,
        grid=(pl.cdiv(count, block),),
        in_specs=[array, table, table],
        out_specs=array,
        out_shape=jax.ShapeDtypeStruct(rows.shape, {dtype}),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(rows, cosines, sines)
    return out.reshape({x}.shape)
'''


def plans(info: TaskInfo, target: Target) -> list[Plan]:
    """The one strategy; raises Unsupported for what is not a rotation and nothing else."""
    _only(info)
    moved = sum(s.size * itemsize(s.dtype) for s in (*info.inputs, *info.outputs))
    seconds = memory_seconds(float(moved), target)
    reason = f"every value moves once: {moved / 2**20:.0f} MiB, {seconds * 1e6:.0f} us"
    return [Plan("rotary", STRATEGY, reason, {}, seconds)]


def implement(info: TaskInfo, plan: Plan, target: Target) -> str:
    """Source for this family's plan."""
    x, cos, sin = _only(info)
    names = parameters(info, Names(("positions", "heads", "width", "count", "rows", "turn")))
    arrays = array_names(info, names)
    module = Module("Rotary positions.", _STORY, {"block": _BLOCKS})
    module.constants["TOGETHER"] = ("8", "positions: they hide one another's latencies")
    dtype = info.outputs[0].dtype
    same = dtype == info.inputs[x].dtype
    text = _KERNEL.format(
        x=arrays[x],
        cos=arrays[cos],
        sin=arrays[sin],
        block=_BLOCKS[0],
        dtype=f"{arrays[x]}.dtype" if same else f"jnp.{dtype}",
    )
    module.functions = [_TURN, text]
    return module.render()


def _only(info: TaskInfo) -> tuple[int, int, int]:
    """Positions among the inputs of x, cosines and sines."""
    graph = info.graph
    found = rotations(graph)
    if len(found) != 1 or graph.outputs != (found[0].output,) or info.statics:
        raise Unsupported("it is not one rotation of halves")
    rotation = found[0]
    wanted = (rotation.x, rotation.cos, rotation.sin)
    if graph.inputs != wanted:
        raise Unsupported("angles or arrays come from something else")
    heads, width = graph.values[rotation.x].shape[-2:]
    if math.prod((heads, width)) * 4 > 1 << 20:
        raise Unsupported("the heads of a position do not fit in registers and VMEM")
    return 0, 1, 2
