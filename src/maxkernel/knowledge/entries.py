"""What the index holds: the guide by section, every Pallas name, every error text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

import msgspec

from maxkernel.knowledge.extract import Extract
from maxkernel.targets import TARGETS, Target

SCOPED_VMEM_MIB = {"v4": 16, "v5e": 16, "v5p": 16, "v6e": 32, "v7x": 32}
"""VMEM that a kernel gets without `vmem_limit_bytes`; found by compiling kernels of growing
footprint with jax 0.10.2 and libtpu 0.0.42.1."""


class Entry(msgspec.Struct, frozen=True):
    """One document of the index."""

    id: str
    title: str
    body: str


def guide_entries() -> Iterator[Entry]:
    """The written guide, one entry per `##` section (text before the first one included)."""
    for path in sorted(files("maxkernel.knowledge").joinpath("guide").iterdir(), key=str):
        if path.name.endswith(".md"):
            yield from _sections(path.name.removesuffix(".md"), path.read_text())
    yield from (_generation(target) for target in TARGETS.values())


def strategy_titles() -> tuple[str, ...]:
    """Titles of the catalogue of strategies, for planners' menus."""
    inside = (e for e in guide_entries() if e.id.startswith("guide/strategies/"))
    return tuple(entry.title.partition(": ")[2] for entry in inside)


def jax_entries(extract: Extract) -> Iterator[Entry]:
    """Names, error texts and the list of supported operations of the installed jax."""
    for name in extract.names:
        text = "\n\n".join(part for part in (name.signature, name.deprecated, name.doc) if part)
        yield Entry(f"api/{name.name}", name.name, text or name.name)
    for number, error in enumerate(extract.errors):
        title = f"{error.kind}: {error.text[:80]}"
        body = f"{error.kind}: {error.text}\n\nRaised by jax in {error.where}."
        yield Entry(f"error/{number}", title, body)
    yield Entry(
        "api/operations",
        "Operations with a TPU lowering inside kernels",
        f"jax {extract.version} can lower these primitives in a kernel body: "
        + ", ".join(extract.primitives),
    )


def _sections(name: str, text: str) -> Iterator[Entry]:
    top, *rest = re.split(r"^## ", text, flags=re.MULTILINE)
    heading, _, body = top.partition("\n")
    title = heading.removeprefix("# ").strip()
    if body.strip():
        yield Entry(f"guide/{name}", title, body.strip())
    for section in rest:
        heading, _, body = section.partition("\n")
        slug = re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")
        yield Entry(f"guide/{name}/{slug}", f"{title}: {heading.strip()}", body.strip())


def _generation(target: Target) -> Entry:
    return Entry(f"guide/generations/{target.name}", f"TPU {target.name}", hardware(target))


def hardware(target: Target) -> str:
    """Facts about one generation, for prompts and the index."""
    mib = 1 << 20
    rates = [f"bfloat16 {target.bf16_flops / 1e12:.0f} Tflop/s"]
    if target.int8_ops:
        rates.append(f"int8 {target.int8_ops / 1e12:.0f} Top/s")
    if target.fp8_flops:
        rates.append(f"float8 {target.fp8_flops / 1e12:.0f} Tflop/s")
    balance = target.bf16_flops / target.hbm_bandwidth
    cores = (
        "two TensorCores; the second one works only if a grid dimension is parallel"
        if target.cores == 2
        else "one TensorCore"
    )
    return (
        f"TPU {target.name} ({target.device_kind}), figures per jax device: {cores}; "
        f"matrix unit {target.mxu_size}x{target.mxu_size}, {target.mxus} per core; "
        f"{', '.join(rates)}; HBM {target.hbm_bytes / 1e9:.0f} GB at "
        f"{target.hbm_bandwidth / 1e12:.2f} TB/s; VMEM {target.vmem_bytes // mib} MiB per core, "
        f"of which a kernel gets {SCOPED_VMEM_MIB[target.name]} MiB unless vmem_limit_bytes says "
        f"otherwise; SMEM {target.smem_bytes // mib} MiB; clock {target.clock_hz / 1e9:.2f} GHz. "
        f"A kernel with fewer than {balance:.0f} bfloat16 operations per byte of HBM traffic is "
        "memory bound."
    )
