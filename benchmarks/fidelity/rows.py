"""The published measurements that the clock is compared with, and their fixed split.

A row belongs to the half that constants may be chosen on (`fit`) or to the half that they never
are (`test`), by a hash of its problem: all configurations of one problem are on one side.
"""

from __future__ import annotations

import csv
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Row:
    """One published time. `fields` is what a builder needs to make the program again.

    `compile_seconds` is what compiling and lowering took where that is published, else 0.
    """

    suite: str
    name: str
    target: str
    seconds: float
    problem: str
    fields: dict[str, str] = field(default_factory=dict)
    compile_seconds: float = 0.0
    other: str = ""
    """Why the suite's task is another program than the measured one, where it is."""

    @property
    def key(self) -> str:
        """A file name for what is compiled from this row."""
        text = f"{self.suite}/{self.target}/{self.name}/{sorted(self.fields.items())}"
        return f"{self.target}-{self.suite}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def split(self) -> str:
        digest = hashlib.sha256(f"split of {self.problem}".encode()).digest()
        return "fit" if digest[0] % 2 else "test"

    @property
    def seen(self) -> bool:
        """Whether an earlier trial looked at the row when it chose its target's constants."""
        return self.target == "v7x" and round(self.seconds * 1e3, 3) in _TRIAL_MS


_TRIAL_MS = frozenset({0.453, 0.454, 0.532, 0.631, 0.723, 1.355, 1.613, 2.077, 4.025})
"""v7x's constants come from a trial on 22 published rows before this split; those of them that are
in the sample, by their time. They are in both halves."""

_DEVICES = {"tpu_v5_lite": "v5e", "tpu_v5": "v5p", "tpu_v6_lite": "v6e", "tpu7x": "v7x"}


def tokamax_rows() -> list[Row]:
    """Winning configurations of tokamax's Pallas kernels (`data/tokamax_pallas.csv`)."""
    rows: list[Row] = []
    with (DATA / "tokamax_pallas.csv").open() as file:
        for line in csv.DictReader(file):
            op = line["op"].removeprefix("pallas_mosaic_tpu_")
            shapes = re.sub(
                r" (causal|bias|boolmask|softcap|residuals|act|groups)=.*", "", line["desc"]
            )
            rows.append(
                Row(
                    suite="tokamax",
                    name=op,
                    target=_DEVICES[line["device"]],
                    seconds=float(line["ms"]) / 1e3,
                    problem=f"{op} {shapes}",
                    fields={key: line[key] for key in ("desc", "config", "peak_mb")},
                    compile_seconds=(int(line["compile_ms"]) + int(line["lower_ms"])) / 1e3,
                )
            )
    return rows


_OTHER_PROGRAM = {
    "4p.baseline": "it has a batch of 1, its hand-written kernel a batch of 4",
    "7p.baseline": "it was timed op by op, without jit",
    "11p.baseline": "it was timed op by op, without jit",
    "42k.baseline": "its formula returns zeros of another shape",
}
"""Published rows that only JaxBench's own sources make."""


def jaxbench_rows() -> list[Row]:
    """XLA's and hand-written times of JaxBench on v6e (`data/jaxbench_v6e.csv`)."""
    rows: list[Row] = []
    with (DATA / "jaxbench_v6e.csv").open() as file:
        for line in csv.DictReader(file):
            name = f"{line['workload'].split('_')[0]}.{line['variant']}"
            if line["status"] != "success":
                continue
            rows.append(
                Row(
                    suite="jaxbench",
                    name=name,
                    target="v6e",
                    seconds=float(line["median_ms"]) / 1e3,
                    problem=line["workload"],
                    fields={"workload": line["workload"], "variant": line["variant"]},
                    other=_OTHER_PROGRAM.get(name, ""),
                )
            )
    return rows


def sweep_rows() -> list[Row]:
    """The matmul block sweep of jax's documentation on v5e (`data/matmul_sweep_v5e.csv`)."""
    with (DATA / "matmul_sweep_v5e.csv").open() as file:
        return [
            Row(
                suite="sweep",
                name=f"{line['size']}.{line['blocks']}",
                target="v5e",
                seconds=float(line["ms"]) / 1e3,
                problem=f"matmul {line['size']}",
                fields={"size": line["size"], "blocks": line["blocks"]},
            )
            for line in csv.DictReader(file)
        ]


SUITES = {"tokamax": tokamax_rows, "jaxbench": jaxbench_rows, "sweep": sweep_rows}
