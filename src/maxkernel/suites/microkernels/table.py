"""Which microkernels there are, and the task of each: a file of `tasks/` and its parameters."""

from __future__ import annotations

import re
from importlib import resources
from typing import Literal

import msgspec

from maxkernel.tasks import task_from_text
from maxkernel.types import Task

Kind = Literal["bandwidth", "latency", "stride", "gemm", "transpose", "lanes", "loadstore"]


class Microkernel(msgspec.Struct, frozen=True):
    """One of them. `fits` says whether the clock's constants are fitted on it."""

    name: str
    kind: Kind
    file: str
    parameters: dict[str, int]
    fits: bool = True


def _dma(name: str, kind: Kind, **parameters: int) -> Microkernel:
    return Microkernel(name, kind, "dma.py", parameters)


MICROKERNELS = (
    _dma("read 256 KiB, 4 in flight", "bandwidth", rows=64, flight=4, rounds=512),
    _dma("read 1 MiB, 2 in flight", "bandwidth", rows=256, flight=2, rounds=256),
    _dma("read 32 KiB, 8 in flight", "bandwidth", rows=8, flight=8, rounds=1024),
    _dma("write 256 KiB, 4 in flight", "bandwidth", rows=64, flight=4, rounds=512, write=1),
    _dma("write 1 MiB, 2 in flight", "bandwidth", rows=256, flight=2, rounds=256, write=1),
    _dma("read 4 KiB, one at a time", "latency", rows=1, flight=1, rounds=2048),
    _dma("read 16 KiB, one at a time", "latency", rows=4, flight=1, rounds=2048),
    _dma("write 4 KiB, one at a time", "latency", rows=1, flight=1, rounds=2048, write=1),
    _dma("read runs of 512 B", "stride", rows=1024, used=128, flight=4, rounds=256),
    _dma("read runs of 1 KiB", "stride", rows=1024, used=256, flight=4, rounds=128),
    _dma("read runs of 2 KiB", "stride", rows=512, used=512, flight=4, rounds=128),
    _dma("write runs of 512 B", "stride", rows=1024, used=128, flight=4, rounds=256, write=1),
    Microkernel("gemm 512 x 1024 x 512", "gemm", "gemm.py", {}),
    Microkernel("gemm 256 x 512 x 512", "gemm", "gemm.py",
                {"rows": 256, "depth": 512, "rounds": 2048}),
    Microkernel("gemm 1024 x 512 x 512", "gemm", "gemm.py",
                {"rows": 1024, "depth": 512, "rounds": 512}),
    Microkernel("transposes", "transpose", "vector.py", {"work": 0}, fits=False),
    Microkernel("sums across lanes", "lanes", "vector.py", {"work": 1}, fits=False),
    Microkernel("loads and stores", "loadstore", "vector.py",
                {"work": 2, "rounds": 8192}, fits=False),
)  # fmt: skip
"""Those that do not fit tell how far vector work is from its schedule: it has no constant."""


def task_of(microkernel: Microkernel) -> Task:
    """The microkernel as a task whose reference is the Pallas kernel itself."""
    folder = resources.files("maxkernel.suites.microkernels") / "tasks"
    text = (folder / microkernel.file).read_text(encoding="utf-8")
    found = re.search(r"^PARAMETERS = (\{.*\})$", text, re.MULTILINE)
    assert found is not None, f"{microkernel.file} has no PARAMETERS"
    line = f"PARAMETERS = {found[1]} | {microkernel.parameters!r}"
    source = text[: found.start()] + line + text[found.end() :]
    name = microkernel.name.replace(" ", "_").replace(",", "")
    return task_from_text(name, "maxkernel", microkernel.file, {microkernel.file: source})
