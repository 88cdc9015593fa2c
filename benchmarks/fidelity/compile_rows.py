# ruff: noqa: E402 (libtpu reads its flags from the environment when jax is imported)
"""Compiles the programs of one suite and keeps their dumps:

    python -m benchmarks.fidelity.compile_rows SUITE CACHE [PATTERN] [--target T ...]
        [--half fit|test] [--at-most S] [--retry]

from the repository's root, in an environment that has the suite's jax (README.md). Rows that the
cache holds are skipped, so an interrupted run goes on where it stopped; rows with short published
compile times come first. A row that cannot be made leaves the reason in KEY.failed; `--retry` tries
those again that were stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import sys
import tarfile
import time
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("suite", choices=("tokamax", "jaxbench", "sweep"))
parser.add_argument("cache", type=Path)
parser.add_argument("pattern", nargs="?", default="", help="what a row's label must match")
parser.add_argument("--target", nargs="*", default=[], help="only rows of these")
parser.add_argument("--half", choices=("fit", "test"), help="only rows of this half")
parser.add_argument("--at-most", type=float, default=1e9, help="only rows that took less, in s")
parser.add_argument("--source", type=Path, help="folder of JaxBench's own sources")
parser.add_argument("--retry", action="store_true", help="rows again that were stopped")
OPTIONS = parser.parse_args()
del sys.argv[1:]  # tokamax reads the rest as flags of its own
CACHE: Path = OPTIONS.cache
LIVE = CACHE / f".live-{os.getpid()}"
LIVE.mkdir(parents=True)
FLAGS = (
    "--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true "
    "--xla_jf_dump_llo_pass_label_regex=(packed-bundles-post-ra|deduplication-map)"
)
"""As `maxkernel.schedule.dump_flags`, but no lines; maxkernel need not be in this environment."""
os.environ.update(
    JAX_PLATFORMS="cpu",
    TPU_SKIP_MDS_QUERY="1",
    TPU_WORKER_HOSTNAMES="localhost",
    TPU_ACCELERATOR_TYPE="v6e-4",
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",
    LIBTPU_INIT_ARGS=FLAGS.format(folder=LIVE),
)

import importlib

import jax
import numpy as np
from benchmarks.fidelity import scalars
from benchmarks.fidelity.rows import SUITES, Row
from jax._src import mesh as meshes
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

TOPOLOGIES = {"v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "v7x": "tpu7x:2x2x1"}


def on_device(device) -> contextlib.AbstractContextManager:
    """Tells kernels which device they are traced for, where this jax has a way to."""
    if not hasattr(meshes, "AbstractDevice"):
        return contextlib.nullcontext()
    facts = (device.device_kind, getattr(device, "num_cores", 1), "tpu")
    kind = meshes.AbstractDevice(*facts[: len(meshes.AbstractDevice.__dataclass_fields__)])
    return jax.sharding.use_abstract_mesh(meshes.AbstractMesh((), (), abstract_device=kind))


def clear() -> None:
    shutil.rmtree(LIVE)
    LIVE.mkdir()


def compile_row(row: Row, parts) -> dict:
    """Compiles what runs for a row into LIVE; facts about it. Of several programs each has a folder
    and facts of its own, and `times` it runs."""
    clear()
    device = topologies.get_topology_desc(TOPOLOGIES[row.target], "tpu").devices[0]
    programs = parts(row)
    if len(programs) == 1:
        return {"key": row.key, **compile_program(device, *programs[0][1:])}
    made: list[dict] = []
    for times, function, inputs in programs:
        made.append({"times": times, **compile_program(device, function, inputs)})
        folder = LIVE / f"part{len(made) - 1}"
        folder.mkdir()
        for path in [path for path in LIVE.iterdir() if path.is_file()]:
            path.rename(folder / path.name)
    seconds = sum(facts["compile_seconds"] for facts in made)
    return {"key": row.key, "compile_seconds": seconds, "parts": made}


def compile_program(device, function, inputs) -> dict:
    """Compiles into LIVE; facts about the program."""
    sharding = SingleDeviceSharding(device)
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in inputs]
    where = {} if shapes else {"out_shardings": sharding}
    with on_device(device):
        traced = jax.jit(function, **where).trace(*shapes)
        start = time.perf_counter()
        lowered = traced.lower(lowering_platforms=("tpu",))
        compiled = lowered.compile()
        elapsed = time.perf_counter() - start
    tables = scalars.collect(traced.jaxpr, list(inputs))
    text = compiled.as_text()
    memory = compiled.memory_analysis()
    return {
        "jax": jax.__version__,
        "libtpu": importlib.metadata.version("libtpu"),
        "compile_seconds": elapsed,
        "argument_bytes": memory.argument_size_in_bytes,
        "output_bytes": memory.output_size_in_bytes,
        "peak_bytes": getattr(memory, "peak_memory_in_bytes", 0),
        "xla_cycles": sum(int(n) for n in re.findall(r'"estimated_cycles":"(\d+)"', text)),
        "kernels": text.count('custom_call_target="tpu_custom_call"'),
        "operands": {
            name: [
                {index: (list(value.shape), str(value.dtype), value.ravel().tolist())
                 for index, value in call.items()}
                for call in calls
            ]
            for name, calls in tables.items()
        },
    }  # fmt: skip


def keep(row: Row, facts: dict) -> None:
    """Packs LIVE and the facts into CACHE/KEY.tar.gz."""
    (LIVE / "facts.json").write_text(json.dumps(facts))
    partial = CACHE / f"{row.key}.partial"
    with tarfile.open(partial, "w:gz", compresslevel=4) as archive:
        for path in sorted(LIVE.rglob("*")):
            if path.is_file() and "vmem_report" not in path.name and "-<late-" not in path.name:
                archive.add(path, path.relative_to(LIVE))
    partial.rename(CACHE / f"{row.key}.tar.gz")


_STOPPED = "not finished: the compiler died or was stopped"


def wanted(row: Row, label: str) -> bool:
    """Whether the options ask for a row and the cache has neither it nor why it fails."""
    failed = CACHE / f"{row.key}.failed"
    again = OPTIONS.retry and failed.exists() and _STOPPED in failed.read_text()
    return (
        (row.target in OPTIONS.target or not OPTIONS.target)
        and OPTIONS.half in (row.split, None)
        and row.compile_seconds <= OPTIONS.at_most
        and re.search(OPTIONS.pattern, label) is not None
        and not (CACHE / f"{row.key}.tar.gz").exists()
        and (again or not failed.exists())
    )


def builder():
    """What makes the programs of a row: from the published sources where they are given."""
    if OPTIONS.source:
        published = importlib.import_module("benchmarks.fidelity.build_published")
        published.SOURCE = OPTIONS.source
        return published.parts
    module = importlib.import_module(f"benchmarks.fidelity.build_{OPTIONS.suite}")
    return lambda row: [(1, *module.build(row))]


def main() -> None:
    parts = builder()
    for row in sorted(SUITES[OPTIONS.suite](), key=lambda row: row.compile_seconds):
        label = f"{row.target} {row.name} {row.problem} {row.fields}"
        if not wanted(row, label):
            continue
        failed = CACHE / f"{row.key}.failed"
        failed.write_text(f"{label}\n{_STOPPED}\n")
        try:
            facts = compile_row(row, parts)
        except Exception as error:
            failed.write_text(f"{label}\n{type(error).__name__}: {str(error)[:2000]}\n")
            print(f"failed {label[:90]}: {str(error)[:200]}", flush=True)
            continue
        keep(row, facts)
        failed.unlink()
        print(f"{facts['compile_seconds']:6.1f} s  {label[:150]}", flush=True)


if __name__ == "__main__":
    np.random.seed(0)
    try:
        main()
    finally:
        shutil.rmtree(LIVE)
