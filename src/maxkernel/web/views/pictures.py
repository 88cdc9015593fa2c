"""Data for the pictures of a profile: where the time goes, and how far the roof is."""

from __future__ import annotations

from typing import Any

from maxkernel.judge import Prepared
from maxkernel.targets import peak_rate
from maxkernel.types import Evaluation, ProgramTime

MICRO = 1e6


def timeline(program: ProgramTime | None) -> dict[str, Any]:
    """Every operation one after another: working, and waiting for HBM, in microseconds."""
    if program is None:
        return {"ops": []}
    ops: list[dict[str, Any]] = []
    at = 0.0
    for op in program.ops:
        share = op.stall_cycles / op.cycles if op.cycles else 0.0
        ops.append(
            {
                "name": op.name,
                "kind": op.kind,
                "calls": op.calls,
                "start": at * MICRO,
                "us": op.seconds * MICRO,
                "stall": op.seconds * share * MICRO,
                "read": op.read_bytes,
                "write": op.write_bytes,
                "units": op.units,
                "regions": [
                    {
                        "name": region.name,
                        "depth": region.depth,
                        "runs": region.executions,
                        "us": region.cycles / program.clock_hz * MICRO,
                        "stall": region.stall_cycles / program.clock_hz * MICRO,
                    }
                    for region in op.regions
                ],
            }
        )
        at += op.seconds
    return {"ops": ops, "us": program.seconds * MICRO}


def ladder(evaluation: Evaluation | None, prepared: Prepared | None) -> dict[str, Any]:
    """Times to compare with, shortest first: the bound, this kernel, XLA."""
    if prepared is None:
        return {"rungs": []}
    rungs = [
        {"name": "roofline bound", "us": prepared.bound.time.seconds * MICRO, "kind": "bound"},
    ]
    if prepared.xla is not None:
        us = prepared.xla.seconds * MICRO
        rungs.append({"name": "XLA", "us": us, "kind": "baseline"})
    if evaluation is not None and evaluation.time is not None:
        us = evaluation.time.seconds * MICRO
        rungs.append({"name": "this kernel", "us": us, "kind": "kernel"})
    return {"rungs": sorted(rungs, key=lambda rung: float(str(rung["us"])))}


def roofline(evaluation: Evaluation | None, prepared: Prepared | None) -> dict[str, Any]:
    """The classical picture: arithmetic intensity against achieved rate. Empty where the task
    has no matrix product, whose arithmetic alone is counted."""
    if prepared is None or not prepared.info.flops:
        return {}
    info, target = prepared.info, prepared.target
    rate = max((peak_rate(target, spec.dtype) for spec in info.inputs), default=target.bf16_flops)
    points: list[dict[str, Any]] = []
    if prepared.xla is not None:
        seconds = prepared.xla.seconds
        points.append(_point("XLA", "baseline", seconds, prepared.baseline_program, info))
    if evaluation is not None and evaluation.time is not None:
        seconds = evaluation.time.seconds
        points.append(_point("this kernel", "kernel", seconds, evaluation.program, info))
    return {
        "peak": rate,
        "bandwidth": target.hbm_bandwidth,
        "target": target.name,
        "points": [point for point in points if point],
    }


def _point(
    name: str, kind: str, seconds: float, program: ProgramTime | None, info: Any
) -> dict[str, Any]:
    moved = sum(op.read_bytes + op.write_bytes for op in program.ops) if program else 0.0
    moved = moved or info.io_bytes
    return {"name": name, "kind": kind, "x": info.flops / moved, "y": info.flops / seconds}
