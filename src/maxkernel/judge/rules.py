"""Static rules on a captured program: facts in, a failure or None out."""

from __future__ import annotations

from maxkernel.targets import Target
from maxkernel.types import ArraySpec, ArtifactFacts, Failure, FailureKind, TaskInfo

CRUMB = 0.1
"""Least share of a program's work that has to lie in kernels.

A kernel between XLA operations of its own worth (a convolution by XLA, its epilogue in Pallas) does
well more by this measure, a decoy that touches one block far less. Kernels that only copy
count nothing.
"""

CONSTANT_LIMIT_BYTES = 16 << 10
"""Larger array constants could hold precomputed answers. Index tables and masks fit well below."""


def check_rules(info: TaskInfo, facts: ArtifactFacts) -> Failure | None:
    """The first rule that a candidate breaks."""
    return (
        _outputs("full size", info.outputs, facts.outputs)
        or _outputs("check size", info.check_outputs, facts.check_outputs)
        or _pallas(facts)
        or _forbidden(facts)
        or _constants(facts)
        or _donated(facts)
    )


def check_share(facts: ArtifactFacts, target: Target) -> Failure | None:
    """Refuses a crumb of Pallas around XLA doing the work; `facts` are those of an execution."""
    copies = [call.name for call in facts.pallas_calls if call.copies and call.reaches_output]
    share = pallas_share(facts, target)
    if share is None or share >= CRUMB:
        return None
    only = f"; {copies[0]} only copies" if copies else ""
    return _failure(
        "decoy",
        f"Pallas kernels do {100 * share:.2g} % of the program's work and XLA the rest{only}",
        f"do at least {100 * CRUMB:.0f} % of the work in kernels, or allow_hybrid in the settings",
    )


def pallas_share(facts: ArtifactFacts, target: Target) -> float | None:
    """Part of the program's work in kernels, by roofline seconds; None where it is not known."""
    inside = facts.flops_inside / target.bf16_flops + facts.bytes_inside / target.hbm_bandwidth
    outside = facts.flops_outside / target.bf16_flops + facts.bytes_outside / target.hbm_bandwidth
    return inside / (inside + outside) if inside + outside else None


def _outputs(
    size: str, wanted: tuple[ArraySpec, ...], got: tuple[ArraySpec, ...]
) -> Failure | None:
    if wanted == got:
        return None
    if len(wanted) != len(got):
        message = f"{size}: {len(got)} outputs where the reference has {len(wanted)}"
    else:
        index = next(
            i for i, pair in enumerate(zip(wanted, got, strict=True)) if pair[0] != pair[1]
        )
        message = f"{size}: output {index} is {got[index]}; the reference returns {wanted[index]}"
    return _failure(
        "output_spec",
        message,
        "return the reference's shapes and dtypes; read them from the inputs",
    )


def _pallas(facts: ArtifactFacts) -> Failure | None:
    if not facts.pallas_calls:
        return _failure(
            "no_pallas", "the program holds no Pallas kernel", "do the work in a pl.pallas_call"
        )
    if not any(call.reaches_output for call in facts.pallas_calls):
        return _failure(
            "no_pallas",
            "no output depends on a Pallas kernel: its results are dropped or multiplied by zero",
            "return what the kernel computes",
        )
    interpreted = [call.name for call in facts.pallas_calls if call.interpret]
    if interpreted:
        return _failure(
            "interpret",
            f"pallas_call {interpreted[0]!r} is in interpret mode",
            "leave out `interpret=`; the judge interprets the CPU program itself",
        )
    return None


def _forbidden(facts: ArtifactFacts) -> Failure | None:
    if not facts.forbidden:
        return None
    return _failure(
        "callback",
        f"the program uses {', '.join(facts.forbidden)}",
        "a kernel may not call back to the host, print, or compute on the host",
    )


def _donated(facts: ArtifactFacts) -> Failure | None:
    if not facts.donated:
        return None
    return _failure(
        "hazard",
        f"the program may destroy its input {facts.donated[0]} (donation)",
        "leave out donate_argnums; input_output_aliases of a pallas_call are fine",
    )


def _constants(facts: ArtifactFacts) -> Failure | None:
    if facts.constant_bytes <= CONSTANT_LIMIT_BYTES:
        return None
    return _failure(
        "constants",
        f"{facts.constant_bytes} bytes of array constants are baked into the program; "
        f"the limit is {CONSTANT_LIMIT_BYTES}",
        "compute them from the inputs or with jnp.arange / iota inside the kernel",
    )


def _failure(kind: FailureKind, message: str, advice: str) -> Failure:
    return Failure(stage="rules", kind=kind, message=message, advice=advice)
