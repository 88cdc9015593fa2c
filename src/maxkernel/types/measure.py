"""What a device's clock said about programs."""

from __future__ import annotations

import msgspec

from maxkernel.types.clock import Time


class Samples(msgspec.Struct, frozen=True):
    """One program's repetitions, each on its own inputs, in seconds."""

    device: tuple[float, ...]
    """By the device's own clock, in the order of the repetitions."""
    busy: tuple[float, ...]
    """The part in which an operation ran."""
    wall: tuple[float, ...]
    """By the host's clock: per call, over batches of calls that do not wait for each other."""
    ops: dict[str, float] = {}
    """Mean time of each operation, without the operations inside it."""


class WallCheck(msgspec.Struct, frozen=True):
    """The device's clock beside the host's."""

    agrees: bool | None
    """None where the host is too slow to tell."""
    text: str


class Measured(msgspec.Struct, frozen=True):
    """A measured program."""

    name: str
    time: Time
    """The median; its expected error is half the width of the median's confidence interval."""
    low: float
    high: float
    """The interval, seconds."""
    quartiles: tuple[float, float]
    """Between which half of the repetitions lie, seconds."""
    repetitions: int
    busy_seconds: float
    wall_seconds: float
    wall: WallCheck
    ops: dict[str, float] = {}


class MeasuredRatio(msgspec.Struct, frozen=True):
    """How many times faster one measured program is than another, paired by repetition."""

    ratio: float
    low: float
    high: float
