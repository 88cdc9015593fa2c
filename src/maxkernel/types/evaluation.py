"""What the judge found, stage by stage. A failure is a value."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from maxkernel.types.artifact import ArtifactFacts
from maxkernel.types.candidate import Candidate
from maxkernel.types.clock import ProgramTime, Time

Stage = Literal["trace", "capture", "rules", "compile", "check", "time"]

FailureKind = Literal[
    "syntax",  # the source is not Python, or lacks `kernel`
    "forbidden",  # the source uses syntax or imports that candidates may not use
    "trace",  # tracing raised
    "api",  # a name that the installed jax does not have
    "block_shape",  # a block that the TPU's tiling does not allow
    "unsupported",  # an operation that the Pallas TPU lowering lacks
    "vmem",  # more VMEM (or SMEM) than the chip has
    "hbm",  # more HBM than the chip has
    "compile",  # the compiler refused for another reason
    "compile_crash",  # the compiler's process died
    "timeout",  # a stage outlived its limit
    "memory",  # a worker outgrew its memory limit
    "crash",  # the candidate's process died or exited
    "output_spec",  # number, shape or dtype of outputs differ from the reference
    "no_pallas",  # no Pallas kernel contributes to the result
    "decoy",  # Pallas does a crumb of the work and XLA the rest
    "callback",  # host callbacks or other forbidden primitives
    "constants",  # large constants baked into the program
    "interpret",  # a Pallas call left in interpret mode
    "mismatch",  # wrong numbers
    "nonfinite",  # NaN or infinity where the oracle is finite
    "size_dependent",  # another program at full size than at check size, and no spot check
    "hazard",  # a race, a hang, an unfinished DMA, an access out of bounds, a written input
    "schedule",  # the compiled schedule could not be read
    "too_fast",  # faster than the roofline allows: refused and flagged
    "reference",  # the reference itself failed
    "inputs",  # the task's inputs are unusable
    "environment",  # this machine lacks something
]


class Failure(msgspec.Struct, frozen=True):
    """Why a stage ended. `message` says what and where, `advice` the next thing to try."""

    stage: Stage
    kind: FailureKind
    message: str
    advice: str = ""
    detail: str = ""
    """The useful lines of the compiler's or Python's own message."""
    line: int | None = None
    """Line of the candidate (or task) source, where known."""


class OutputError(msgspec.Struct, frozen=True):
    """Errors of one output against the oracle; `reference_*` are those of the reference itself.

    `spread` is the RMS of the oracle around its mean; `excess` the largest ratio of an element's
    error to its allowance (at most 1 passes).
    """

    max_abs: float
    rms: float
    reference_max_abs: float
    reference_rms: float
    spread: float
    excess: float
    nonfinite: int
    """Elements that are not finite where the oracle is."""
    elements: int
    rms_allowance: float | None = None
    """Largest RMS error that the error model allows; None for exact (integer) outputs."""


Distribution = Literal["uniform", "large", "small", "equal rows", "signed zeros", "edges"]
"""Inputs other than the task's own draws, made from them: `uniform` over their range, `large` and
`small` by powers of two, rows that `equal` the first one, zeros of both signs among the values,
and integers at the `edges` of their range."""

DISTRIBUTIONS: tuple[Distribution, ...] = get_args(Distribution)


class Trial(msgspec.Struct, frozen=True):
    """The check once more, on a further distribution or on a case that a tester thought of."""

    name: str
    """A `Distribution`, or `case: ` and the case's name."""
    seed: int
    passed: bool = False
    outputs: tuple[OutputError, ...] = ()
    how: str = ""
    """What was done to which inputs."""
    skipped: str = ""
    """Why it says nothing about this task, or could not be run; empty where it was run."""


class Numerics(msgspec.Struct, frozen=True):
    """The numerical check of one candidate on inputs from a secret seed."""

    outputs: tuple[OutputError, ...]
    seed: int
    oracle: Literal["float64", "float32"]
    passed: bool
    differences: tuple[str, ...] = ()
    """Where the full-size program differs from the checked one in more than sizes."""
    trials: tuple[Trial, ...] = ()
    """The same on further distributions of inputs; `passed` covers them."""


class Spot(msgspec.Struct, frozen=True):
    """A check at full size: random blocks of the last kernel's output against the oracle.

    `outputs` is empty and `skipped` says why where this machine is too small for it.
    """

    outputs: tuple[OutputError, ...] = ()
    """Errors over the elements that the computed blocks determine."""
    elements: int = 0
    blocks: int = 0
    steps: int = 0
    total_steps: int = 0
    passed: bool = False
    skipped: str = ""
    seed: int = 0
    """What inputs and blocks were drawn from; secret until now."""


class Confirmation(msgspec.Struct, frozen=True):
    """What a winner went through once more before it was handed back."""

    failure: Failure | None
    seeds: int
    """Fresh seeds on which the check passed."""
    hazard_runs: int
    """Executions with other poison, DMA timing and order of parallel steps, all bit-equal."""
    spot: Spot | None = None
    drawn: tuple[int, ...] = ()
    """The seeds, secret until now."""
    trials: tuple[Trial, ...] = ()
    """Further distributions of inputs, on each of the seeds."""


class Evaluation(msgspec.Struct, frozen=True):
    """Everything that the judge found about one candidate."""

    candidate: Candidate
    task: str
    """Digest of the task."""
    target: str
    sandbox: str
    """Level of isolation used: `bubblewrap` or `none`."""
    artifact: str = ""
    """Digest of the artifact; empty when capture failed."""
    facts: ArtifactFacts | None = None
    program: ProgramTime | None = None
    time: Time | None = None
    numerics: Numerics | None = None
    failure: Failure | None = None
    memory: dict[str, int] = {}
    """Bytes by kind from the compiler's memory analysis (temp, argument, output, vmem)."""
    schedule_problem: str = ""
    """Why the compiled schedule could not be read, where it could not: there is no program."""
    elapsed: dict[str, float] = {}
    """Seconds per stage on this machine."""
    cached: tuple[str, ...] = ()
    """Stages answered from the cache."""

    @property
    def accepted(self) -> bool:
        """True when every stage passed."""
        return self.failure is None and self.time is not None


class Verdict(msgspec.Struct, frozen=True):
    """The judge's word on one candidate against the baseline."""

    evaluation: Evaluation
    baseline: Time
    bound: Time
    speedup: float | None
    """Baseline time / candidate time, within one provenance; None when refused."""
    faster: bool
    """The speedup exceeds the expected error of the clock, and nothing steering was assumed."""
    doubt: str = ""
    """What the clock had to assume about data in either program, so that no claim is made."""
    misfit: str = ""
    """Why XLA's program cannot run on the target: there is nothing to be faster than."""

    @property
    def outcome(self) -> Literal["faster", "fits", "xla"]:
        """Of an accepted candidate; see `WON`."""
        if self.misfit:
            return "fits"
        return "faster" if self.faster else "xla"

    @property
    def word(self) -> str:
        """The same for people."""
        return {
            "faster": "faster than XLA",
            "fits": "the only program that fits in memory: XLA's does not",
            "xla": "not faster than XLA beyond the clock's error",
        }[self.outcome]


WON = ("faster", "fits")
"""Outcomes of which a kernel is handed back: faster than XLA's program beyond the clock's error,
or running where XLA's program does not fit in memory."""
