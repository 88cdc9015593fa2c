"""Which TPU generation a dump is for, as far as its text tells.

No dump names its generation. Names of matrix and cross-lane units tell apart most, and the delay
slots after a branch the oldest and the newest; a program for v5e that uses neither unit looks as
one for v6e does. Found by comparing dumps of the same programs for all five.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from maxkernel.schedule.problem import ScheduleError
from maxkernel.schedule.text import Bundle
from maxkernel.targets import TARGETS, Target

_SIGNS = (
    (".mrb", ("v7x",)),
    ("vmatprep.", ("v6e", "v7x")),
    (".mxu2", ("v4", "v5e", "v5p")),
    (".xlu2", ("v5e", "v5p")),
    (".mrf.", ("v4", "v5e", "v5p", "v6e")),
    ("vdwg.", ("v4",)),
    (".ccrf", ("v5p",)),
)
"""What only instructions of these generations have in their names."""


def check_names(name: str, instructions: Collection[str], target: Target) -> None:
    """Raises ScheduleError(`foreign`) where instructions are not those of the target."""
    for sign, generations in _SIGNS:
        if target.name not in generations and any(sign in op for op in instructions):
            raise _foreign(
                name, f"has instructions with {sign!r} in their names", generations, target
            )


def check_slots(name: str, bundles: Sequence[Bundle], target: Target) -> None:
    """The same where branches have the number of delay slots of another target.

    The region that a branch leaves ends with its last slot; regions in it may end earlier.
    """
    seen = max((_until_end(bundles, at) for at in _branches(bundles)), default=0)
    fitting = [other.name for other in TARGETS.values() if other.delay_slots == seen]
    if fitting and target.name not in fitting:
        raise _foreign(name, f"has {seen} delay slots after a branch", fitting, target)


def _branches(bundles: Sequence[Bundle]) -> list[int]:
    return [
        at
        for at, bundle in enumerate(bundles)
        if any(item.op == "sbr.rel" for item in bundle.instructions)
    ]


def _until_end(bundles: Sequence[Bundle], at: int) -> int:
    return next((next_ - at for next_ in range(at, len(bundles)) if bundles[next_].ends), 0)


def _foreign(name: str, seen: str, generations: Sequence[str], target: Target) -> ScheduleError:
    return ScheduleError(
        "foreign",
        f"{name}: compiled for another generation than {target.name}: it {seen}, as programs for "
        f"{' or '.join(generations)} do; simulate it for the generation that it is for",
    )
