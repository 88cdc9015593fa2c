"""Reads the compiler's own report of VMEM, which it writes beside every dump.

The report is a page for people with its data as one JSON value inside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from maxkernel.types import BufferUse

_DATA = re.compile(r"const DATA\s*=\s*")
_WINDOW = re.compile(
    r"(input|output) window allocation for operator (?:input|output) (\d+)\."
    r"(?: The window shape is (\w+\[[\d,]*\]))?"
)
_LEVELS = re.compile(r"has (\d+) buffering levels")
_NAME_LIMIT = 60
SPILLS = "register spills"
"""Name of the buffer that registers are saved to."""


class VmemReport(msgspec.Struct, frozen=True):
    """Allocations by HLO name, and the size of VMEM; empty where there is no report."""

    buffers: Mapping[str, tuple[BufferUse, ...]] = {}
    capacity: int = 0

    def of(self, *names: str) -> tuple[BufferUse, ...]:
        """The buffers of the first of these names that the report knows."""
        return next((self.buffers[name] for name in names if name in self.buffers), ())


def read_report(text: str) -> VmemReport:
    """The report in a page of the compiler's; an empty one where the page is another one.

    What lies in VMEM explains a time and never makes one, so a page that cannot be read is no
    failure.
    """
    found = _DATA.search(text)
    if found is None:
        return VmemReport()
    try:
        data, _ = json.JSONDecoder().raw_decode(text, found.end())
        capacity = int(data["global_info"]["vmem_capacity"])
        ops = cast("dict[str, Any]", data["hlo_breakdowns"])
        buffers = {name: tuple(_buffers(op)) for name, op in ops.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return VmemReport()
    return VmemReport(buffers, capacity)


def _buffers(op: dict[str, Any]) -> list[BufferUse]:
    """The scoped allocations of an op: those that live only while it runs."""
    return [
        _buffer(item)
        for block in op["blocks"]
        if block["block_type"] == "SCOPED"
        for item in block["allocations"]
    ]


def _buffer(item: dict[str, Any]) -> BufferUse:
    tag = str(item["tag"])
    window = _WINDOW.match(tag)
    size = int(item["size"]) + int(item.get("padding", 0))
    if window:
        levels = _LEVELS.search(tag)
        name = f"{window[1]} {window[2]} {window[3] or ''}".strip()
        return BufferUse(name, size, int(levels[1]) if levels else 1)
    spill = "spill" in tag.lower()
    name = SPILLS if spill else f"{tag.split(',')[0]} {item.get('shape', '')}".strip()
    return BufferUse(name[:_NAME_LIMIT], size)
