"""What a suite knows about each of its tasks, besides the task file itself."""

from __future__ import annotations

from typing import Literal

import msgspec

Edition = Literal["hardened", "published", "f32"]
Soundness = Literal["sound", "usable", "weak", "collapses", "broken"]
"""Verdict on a task as published. `sound`: no shortcut found; `usable`: fails trivial kernels, but
has dead parameters or loose spots; `weak`: a trivial kernel is right on most elements; `collapses`:
algebra removes the matrix product; `broken`: a constant, or a kernel that skips the main work,
passes."""


class Published(msgspec.Struct, frozen=True):
    """Times that others measured, milliseconds on one chip; None where there is none."""

    target: str
    xla_ms: float | None
    pallas_ms: float | None
    source: str
    caution: str = ""
    """Why the two times, or these and ours, may not be of the same computation."""


class Entry(msgspec.Struct, frozen=True):
    """One task of a suite. Its source is `tasks/<file>` in the suite's folder."""

    name: str
    file: str
    family: str
    """What kind of kernel it needs: attention, matmul, grouped_matmul, conv, norm, ..."""
    soundness: Soundness = "sound"
    weakness: str = ""
    """What is wrong with the published inputs, in words."""
    published: Published | None = None
    tolerances: dict[str, tuple[float, float]] = {}
    """(atol, rtol) of the editions other than `hardened`.

    The hardened tolerance is the literal in the file: atol is 0.02 of the spread (RMS around the
    mean) of the oracle at check size, cut to one digit; rtol is 0.01. Losses: 0.01 absolute.
    """
    expert: str = ""
    """Our own kernel for the task, a file in `experts/`; empty where there is none."""
    holes: dict[str, tuple[str, ...]] = {}
    """By edition: programs that do not do the work and that lint finds to pass, by their names."""
    compile_seconds: dict[str, float] = {}
    """By edition: how long XLA may take over the reference, where the usual limit is too short."""
    seed: int = 0
    """`inputs(key(seed))` of the published edition gives the original inputs."""
