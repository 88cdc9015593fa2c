"""What `maxkernel profile` measures on a machine with a TPU, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.errors import EXIT_ACCEPTED, EXIT_REFUSED, EnvironmentFault, UsageError
from maxkernel.executor.devices import tpu_device_files
from maxkernel.judge import Measurement
from maxkernel.schedule.words import percent, time_words
from maxkernel.types import Failure
from maxkernel.types.measure import Measured

NO_TPU = "no TPU on this machine: there is no /dev/accel0 and no /dev/vfio/0"


def measures(provenance: str | None) -> bool:
    """Whether a profile is to be measured: where it is asked for, or where there may be a TPU.

    Raises EnvironmentFault where it is asked for and there can be none, UsageError for other words.
    """
    if provenance not in (None, "simulated", "measured"):
        raise UsageError(f"--provenance {provenance}: no such clock", "simulated or measured")
    present = bool(tpu_device_files())
    if provenance == "measured" and not present:
        raise EnvironmentFault(
            NO_TPU, "run the same command on a TPU host; here, --provenance simulated"
        )
    return present and provenance != "simulated"


def show_only(found: Measurement | Failure, as_json: bool) -> int:
    """A profile that is measured alone. Raises EnvironmentFault where the TPU does not answer."""
    if isinstance(found, Failure):
        if found.kind == "environment":
            raise EnvironmentFault(found.message, found.advice)
        if as_json:
            print_json({"failure": found, "exit_status": EXIT_REFUSED})
        else:
            tables.print_failure(found)
        return EXIT_REFUSED
    if as_json:
        print_json({"measured": found, "exit_status": EXIT_ACCEPTED})
    else:
        show(found, {})
    return EXIT_ACCEPTED


def show(found: Measurement | Failure, simulated: Mapping[str, float]) -> None:
    """Prints measured times, beside simulated ones of the same programs where there are any."""
    for line in lines(found, simulated):
        tables.console.print(Text(line))


def lines(found: Measurement | Failure, simulated: Mapping[str, float]) -> list[str]:
    """The words of `show`. A measured time is set beside a simulated one, never divided by it."""
    if isinstance(found, Failure):
        return [f"note: not measured: {found.message}", f"  try: {found.advice}"]
    said = [f"measured on {found.device} ({found.compiler})"]
    for one in found.programs:
        said += [_times(one, simulated.get(one.name)), f"    {one.wall.text}", _slowest(one)]
    return [*said, *_speedup(found), *(f"  doubtful: {text}" for text in found.doubts)]


def _times(one: Measured, simulated: float | None) -> str:
    beside = "" if simulated is None else f"; simulated {time_words(simulated)}"
    return (
        f"  {one.name}: {time_words(one.time.seconds)} measured, median of {one.repetitions} "
        f"(95 % sure of {_range(one.low, one.high)}; half of them {_range(*one.quartiles)})"
        f"{beside}"
    )


def _slowest(one: Measured) -> str:
    total = sum(one.ops.values())
    shares = [f"{percent(s / total)} {name[:40]}" for name, s in list(one.ops.items())[:4] if total]
    return f"    operations: {', '.join(shares) or 'none'}"


def _speedup(found: Measurement) -> Sequence[str]:
    if found.speedup is None:
        return ()
    first, second = (one.name for one in found.programs)
    pair = found.speedup
    low, middle, high, word = pair.low, pair.ratio, pair.high, "faster"
    if middle < 1:
        low, middle, high, word = 1 / high, 1 / middle, 1 / low, "slower"
    sure = "" if low > 1 else "; the range holds 1, so no claim"
    return (
        f"  {first} is {middle:.3f}x {word} than {second}, both measured "
        f"({low:.3f}x to {high:.3f}x){sure}",
    )


def _range(low: float, high: float) -> str:
    return f"{time_words(low)} to {time_words(high)}"
