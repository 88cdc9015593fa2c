"""What capture makes of a candidate: exported programs, and facts read from them."""

from __future__ import annotations

import hashlib

import msgspec

from maxkernel.types.task import ArraySpec


class PallasCall(msgspec.Struct, frozen=True):
    """One `pallas_call` of the full-size program."""

    name: str
    grid: tuple[int, ...]
    """Trip counts; -1 where a bound is dynamic."""
    blocks: tuple[tuple[int, ...], ...] = ()
    """Block shape per operand and result, in call order."""
    block_bytes: int = 0
    """Bytes of one set of blocks; the pipeline holds two of each."""
    scratch_bytes: int = 0
    moved_bytes: float = 0.0
    """HBM bytes that the pipeline moves over the whole grid; 0 where it is not known."""
    reaches_output: bool = True
    interpret: bool = False
    copies: bool = False
    """On the checked inputs, every result was a copy of an operand."""


class ArtifactFacts(msgspec.Struct, frozen=True):
    """Facts about the captured program that the judge's static rules read."""

    pallas_calls: tuple[PallasCall, ...] = ()
    outputs: tuple[ArraySpec, ...] = ()
    check_outputs: tuple[ArraySpec, ...] = ()
    forbidden: tuple[str, ...] = ()
    """Primitives that may not occur: callbacks, host compute, ordered effects."""
    constant_bytes: int = 0
    """Bytes of array constants baked into the program."""
    primitives: dict[str, int] = {}
    """How often each primitive occurs outside Pallas kernels."""
    flops_inside: float = 0.0
    """Operations of matrix products in Pallas kernels that matter to the outputs; rough."""
    flops_outside: float = 0.0
    """The same of XLA's products and convolutions."""
    bytes_inside: float = 0.0
    """Bytes that those kernels read and write."""
    bytes_outside: float = 0.0
    """Bytes that XLA's computing operations read and write, fused as far as they can be; layout
    changes and copies count nothing. 0 in all four: not read, as in a capture's own facts."""
    donated: tuple[int, ...] = ()
    """Inputs that the program may destroy."""
    rounded_products: int = 0
    """Products of f32 matrices in kernels that the MXU rounds to bf16 (default precision)."""


class Artifact(msgspec.Struct, frozen=True):
    """The programs of one candidate for one target, named by content."""

    tpu: bytes
    """Full-size program for the TPU (jax.export, serialised)."""
    check: bytes
    """The same for the TPU at check size: what the numerical check executes on the CPU."""
    facts: ArtifactFacts
    """As the capturing process tells them: good for ranking, never for a verdict."""

    @property
    def digest(self) -> str:
        """SHA-256 of both programs."""
        return hashlib.sha256(self.tpu + b"\0" + self.check).hexdigest()
