"""A candidate's programs as the check worker sees them: decoded, compared, executed.

The very artifact that is compiled and timed is what is executed here; see `worker/mosaic`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from maxkernel.types.artifact import ArtifactFacts
from maxkernel.types.task import ArraySpec
from maxkernel.worker import mosaic
from maxkernel.worker.coverage import uncovered
from maxkernel.worker.failures import Refused, refuse
from maxkernel.worker.shares import Shares, shares_of

PROGRAMS_KEPT = 4
"""Decoded candidates that a worker keeps: a winner is checked again on other seeds."""

MAX_DIFFERENCES = 5
"""Differences between the two sizes that are told; the first ones say enough."""

Outputs = tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True)
class Pair:
    """The full-size and the check-size program of one candidate."""

    check: mosaic.Program
    facts: ArtifactFacts
    differences: tuple[str, ...]
    shares: Shares
    """Work of the full-size program."""


_pairs: dict[str, Pair] = {}


def load_pair(full: bytes, check: bytes) -> Pair:
    """Decodes both programs and compares their structure. Raises Refused for hostile bytes."""
    key = "".join(hashlib.sha256(program).hexdigest() for program in (full, check))
    if key not in _pairs:
        try:
            large, small = mosaic.load(full), mosaic.load(check)
            facts = mosaic.artifact_facts(large, small)
            found = mosaic.same_up_to_sizes(large, small)
            differences = (*found.structure, *uncovered(large, small))[:MAX_DIFFERENCES]
            shares = shares_of(large, facts)
            read = mosaic.gather_facts(large)
            facts = msgspec.structs.replace(
                facts, donated=read.donated, rounded_products=read.default_f32_matmuls
            )
        except mosaic.MosaicError as error:
            raise Refused(mosaic.failure_of(error)) from error
        while len(_pairs) >= PROGRAMS_KEPT:
            _pairs.pop(next(iter(_pairs)))
        _pairs[key] = Pair(small, facts, differences, shares)
    return _pairs[key]


def require_specs(
    program: mosaic.Program, inputs: tuple[ArraySpec, ...], outputs: tuple[ArraySpec, ...]
) -> None:
    """Raises Refused when a program's signature is not the reference's."""
    for verb, found, expected in (
        ("takes", program.inputs, inputs),
        ("returns", program.outputs, outputs),
    ):
        if tuple(found) != expected:
            refuse(
                "check",
                "output_spec",
                f"the program {verb} ({', '.join(map(str, found))}) at this size,"
                f" the reference ({', '.join(map(str, expected))})",
                "return what the reference returns: same number, shapes and dtypes",
            )


def execute(
    program: mosaic.Program, inputs: Sequence[Any], options: mosaic.Options | None = None
) -> Outputs:
    """Outputs of a program. Raises Refused for hazards and for what is not understood."""
    try:
        return tuple(np.asarray(a) for a in mosaic.run(program, inputs, options))
    except mosaic.MosaicError as error:
        raise Refused(mosaic.failure_of(error)) from error


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays are equal bit by bit."""
    raw = np.dtype(np.uint8)
    first, second = (np.ascontiguousarray(x).reshape(-1).view(raw) for x in (a, b))
    return bool(np.array_equal(first, second))
