"""Static rules on a captured program: facts in, a failure or None out."""

from __future__ import annotations

from maxkernel.types import ArraySpec, ArtifactFacts, Failure, FailureKind, TaskInfo

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
    )


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
