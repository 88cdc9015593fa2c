"""Matrix operations of a row's problem, for the roofline beside the clock."""

from __future__ import annotations

import csv
import re

from benchmarks.fidelity.rows import DATA, Row


def operations(row: Row) -> float:
    """Multiply-adds count twice; causal attention counts the half that is needed."""
    if row.suite == "sweep":
        return 2.0 * int(row.fields["size"]) ** 3
    if row.suite == "jaxbench":
        return _counted(row)
    shapes = {
        name: [int(size) for size in sizes.split(",")]
        for name, sizes in re.findall(r"(?:^| )(\w+)=\w+\[([\d,]+)\]", row.fields["desc"])
    }
    if row.name == "flash_attention":
        batch, length, heads, width = shapes["q"]
        full = 2.0 * batch * heads * length * shapes["k"][1] * (width + shapes["v"][3])
        return full / 2 if "causal=True" in row.fields["desc"] else full
    if row.name == "ragged_dot":
        return _ragged(row, shapes)
    return 2.0 * shapes["x"][0] * shapes["x"][1] * shapes["w"][1]


def _ragged(row: Row, shapes: dict[str, list[int]]) -> float:
    lhs, rhs = shapes["lhs"], shapes["rhs"]
    if "contract=[[1], [1]]" in row.fields["desc"]:
        return 2.0 * lhs[0] * lhs[1] * rhs[2]
    if "contract=[[1], [2]]" in row.fields["desc"]:
        return 2.0 * lhs[0] * lhs[1] * rhs[1]
    return 2.0 * lhs[0] * lhs[1] * rhs[1]


def _counted(row: Row) -> float:
    """XLA's own count, as published with the times."""
    with (DATA / "jaxbench_v6e.csv").open() as file:
        for line in csv.DictReader(file):
            if line["workload"] == row.fields["workload"] and line["variant"] == "baseline":
                return float(line["xla_flops"] or 0)
    return 0.0
