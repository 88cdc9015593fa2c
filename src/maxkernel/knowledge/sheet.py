"""The API sheet of prompts: short, and read from the installed jax, so that it cannot drift."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from maxkernel.knowledge.extract import Extract, extract, jax_folder

SHEET_LIMIT = 6000
"""Characters; a test keeps the sheet under it."""

_SECTIONS = {
    "Launch": ("pl.pallas_call", "pl.BlockSpec", "pl.GridSpec", "pltpu.PrefetchScalarGridSpec",
               "pltpu.CompilerParams", "pl.Buffered", "pl.Element", "pl.squeezed",
               "pl.CostEstimate"),
    "Inside a kernel": ("pl.program_id", "pl.num_programs", "pl.when", "pl.ds", "pl.multiple_of",
                        "pl.cdiv", "pl.loop", "pl.run_scoped", "pl.reciprocal", "pltpu.roll",
                        "pltpu.bitcast", "pltpu.einshape", "pltpu.load", "pltpu.store"),
    "Memory": ("pl.ANY", "pltpu.HBM", "pltpu.VMEM", "pltpu.SMEM", "pltpu.SemaphoreType",
               "pl.empty_like"),
    "Copies and pipelines": ("pltpu.make_async_copy", "pltpu.async_copy", "pltpu.sync_copy",
                             "pltpu.emit_pipeline"),
    "Random": ("pltpu.prng_seed", "pltpu.prng_random_bits", "pltpu.stochastic_round"),
}  # fmt: skip

_CALLABLE_SPACES = frozenset({"pltpu.VMEM", "pltpu.SMEM", "pltpu.HBM"})

_FORMER = {
    "pltpu.TPUCompilerParams": "pltpu.CompilerParams",
    "pltpu.TPUMemorySpace": "pltpu.MemorySpace",
    "pltpu.ANY": "pl.ANY",
    "pltpu.repeat": "jnp.repeat",
    "pltpu.delay": "pl.delay",
    "pl.load": "ref[...]",
    "pl.store": "ref[...] = value",
    "pl.swap": "ref[...] = value",
    "pl.atomic_add": "an accumulator in scratch",
    "pl.dot": "jnp.dot",
    "pl.Unblocked": "pl.Element",
    "pl.max_contiguous": "nothing",
    "pl.broadcast": "jnp.broadcast_to",
    "pltpu.semaphore_signal": "pl.semaphore_signal",
    "pltpu.semaphore_wait": "pl.semaphore_wait",
    "pltpu.DeviceIdType": "pl.DeviceIdType",
}
"""Names that older releases had and models remember, with what to write instead. The sheet only
warns of those that the installed jax lacks or deprecates."""

_UNDER_TEST = (
    "sort", "top_k", "cumsum", "cumprod", "cummax", "reduce_prod", "rev", "dynamic_slice",
    "dynamic_update_slice", "scatter", "expm1", "erfc", "cbrt", "sinh", "cosh", "lgamma",
    "conv_general_dilated", "fft", "population_count",
)  # fmt: skip


def api_sheet(python: str = sys.executable) -> str:
    """The sheet for the jax that `python` imports, as Markdown."""
    return _sheet(jax_folder(python))


@cache
def _sheet(folder: Path) -> str:
    return render_sheet(extract(folder))


def render_sheet(found: Extract) -> str:
    """The sheet for one extract. Names that this jax lacks are left out or warned of."""
    names = {name.name: name for name in found.names}
    lines = [f"jax {found.version}. `from jax.experimental import pallas as pl` and"]
    lines.append("`from jax.experimental.pallas import tpu as pltpu`. All names that exist:")
    for title, wanted in _SECTIONS.items():
        lines.append(f"\n{title}:")
        for name in wanted:
            if name in names and not names[name].deprecated:
                lines.append(f"- `{_call(name, names[name].signature)}`")
    known = {name.name.partition(".")[2] for name in found.names if name.name.startswith("pltpu.")}
    lines.append("\nOther names in pltpu: " + ", ".join(sorted(known - _shown())) + ".")
    gone = [
        f"{old} (write {new})"
        for old, new in _FORMER.items()
        if old not in names or names[old].deprecated
    ]
    lines.append("\nGone or deprecated, do not use: " + ", ".join(gone) + ".")
    lacking = [name for name in _UNDER_TEST if name not in found.primitives]
    lines.append("\nNo lowering inside a kernel for: " + ", ".join(lacking) + ".")
    lines.append(
        "\nReductions in a kernel: sum, max, min, argmax, argmin. Products need "
        "preferred_element_type=jnp.float32 (int32 for int8)."
    )
    return "\n".join(lines)


def _call(name: str, signature: str) -> str:
    if name in _CALLABLE_SPACES:
        return f"{name}(shape, dtype)"
    if name == "pl.ds":
        return "pl.ds(start, size, stride=1)"
    return signature or name


def _shown() -> set[str]:
    return {name.partition(".")[2] for wanted in _SECTIONS.values() for name in wanted}
