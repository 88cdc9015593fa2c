"""Contrast of the studio's colours, and the vendored files, without a browser."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import maxkernel.web

STATIC = Path(maxkernel.web.__file__).parent / "static"
CSS = (STATIC / "studio.css").read_text()

READABLE = 4.5
"""WCAG 2.2 AA for text of ordinary size."""

PAIRS = [
    ("ink", "ground"),
    ("ink", "panel"),
    ("ink", "sunk"),
    ("ink", "accent-soft"),
    ("ink", "warn-soft"),
    ("ink", "bad-soft"),
    ("ink", "hot"),
    ("ink", "warm"),
    ("ink", "cool"),
    ("quiet", "ground"),
    ("quiet", "panel"),
    ("quiet", "sunk"),
    ("accent", "panel"),
    ("accent", "sunk"),
    ("accent-ink", "accent"),
    ("good", "panel"),
    ("good", "sunk"),
    ("bad", "panel"),
    ("bad", "bad-soft"),
    ("warn", "sunk"),
    ("xla", "panel"),
    ("xla", "sunk"),
    ("bound", "panel"),
]


def palettes() -> dict[str, dict[str, str]]:
    light, dark = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    colours = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-fA-F]{6});", block)) for block in (light, dark)
    ]
    return {"light": colours[0], "dark": colours[0] | colours[1]}


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(scheme: str) -> None:
    palette = palettes()[scheme]
    weak: list[str] = []
    for text, ground in PAIRS:
        a, b = sorted((luminance(palette[text]), luminance(palette[ground])))
        ratio = (b + 0.05) / (a + 0.05)
        if ratio < READABLE:
            weak.append(f"{text} on {ground}: {ratio:.2f}")
    assert not weak


def test_vendored_files_are_those_that_the_list_names() -> None:
    listed = re.findall(
        r"\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|", (STATIC / "vendor/README.md").read_text()
    )
    assert len(listed) == 2
    for name, digest in listed:
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest
    assert (STATIC / "vendor/htmx-LICENSE.txt").is_file()
    assert (STATIC / "vendor/d3-LICENSE.txt").is_file()


def test_nothing_is_loaded_from_elsewhere() -> None:
    folder = STATIC.parent
    own = [
        p
        for p in folder.rglob("*")
        if p.suffix in (".html", ".css", ".js") and "vendor" not in p.parts
    ]
    assert len(own) > 10
    for path in own:
        for address in re.findall(r"https?://[^\s\"')]+", path.read_text()):
            pytest.fail(f"{path.name} names {address}")
