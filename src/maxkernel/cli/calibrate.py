"""`maxkernel calibrate`: measures the clock's constants on this machine's TPU."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
from rich.table import Table
from rich.text import Text

from maxkernel.api.calibration import Calibrated, calibrate, on_device, target_here
from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.config import Settings, load_settings
from maxkernel.errors import EXIT_ACCEPTED, EnvironmentFault
from maxkernel.executor import open_executor
from maxkernel.executor.devices import tpu_device_files
from maxkernel.schedule.calibrated import OFF, CalibrationFile, file_name, write_calibration
from maxkernel.schedule.constants import clock_of
from maxkernel.targets import get_target
from maxkernel.types import Clock


def run_calibrate(output: str | None, as_json: bool, unsafe: bool) -> int:
    """Writes a calibration file. Raises EnvironmentFault (exit status 3) without a TPU."""
    settings = load_settings()
    if not tpu_device_files():
        raise EnvironmentFault(
            "there is nothing to calibrate on: this machine has no TPU (no device file under /dev)",
            "run it on a TPU host; until then the published constants are used",
        )
    with (
        closing(open_executor(settings, unsafe)) as executor,
        tables.status("looking for the TPU", quiet=as_json) as say,
    ):
        target = target_here(executor)
        found = calibrate(
            executor,
            target,
            on_device(executor, target),
            lambda done, count, name: say(f"{done + 1} of {count}: {name}"),
        )
    path = Path(output).expanduser() if output else _path(settings, found.content)
    write_calibration(path, found.content)
    if as_json:
        head = {"file": str(path), "exit_status": EXIT_ACCEPTED}
        print_json(msgspec.to_builtins(found) | head)
    else:
        print_calibrated(found, path)
    return EXIT_ACCEPTED


def print_calibrated(found: Calibrated, path: Path) -> None:
    """The constants beside the published ones, and every row beside the fit."""
    content = found.content
    table = Table(title=f"clock of a {content.device} with {content.compiler}")
    for head in ("constant", "published", "measured"):
        table.add_column(head)
    published = clock_of(get_target(content.target))
    for name, before, now in zip(
        ("clock rate", "bandwidth", "latency of a copy", "cost of a run"),
        _words(published),
        _words(content.clock),
        strict=True,
    ):
        table.add_row(name, before, now)
    tables.console.print(table)
    table = Table(title="microkernels")
    for head in ("microkernel", "measured", "simulated / measured", ""):
        table.add_column(head)
    for row in content.rows:
        word = "outlier" if row.outlier else "" if row.fitted else "compared only"
        table.add_row(Text(row.name), f"{row.measured * 1e6:.1f} us", f"{row.ratio:.3f}", word)
    tables.console.print(table)
    for text in found.skipped:
        tables.console.print(Text(f"left out: {text}"))
    tables.console.print(
        Text(
            f"typical residual {100 * content.residual:.1f} %, expected error "
            f"{100 * content.expected_error:.1f} %; written to {path}"
        )
    )


def _path(settings: Settings, content: CalibrationFile) -> Path:
    """Where the judge will look."""
    if settings.calibration and settings.calibration != OFF:
        return settings.calibration_path
    folder = msgspec.structs.replace(settings, calibration="").calibration_path
    return folder / file_name(content.target, content.compiler)


def _words(clock: Clock) -> tuple[str, str, str, str]:
    return (
        f"{clock.hz / 1e9:.3f} GHz",
        f"{clock.bandwidth / 1e9:.0f} GB/s",
        f"{clock.latency * 1e6:.2f} us",
        f"{clock.chunk_bytes:.0f} bytes",
    )
