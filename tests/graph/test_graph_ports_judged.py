"""A kernel made for v6e is ported to v7x and judged there, by the real compiler."""

from __future__ import annotations

import time
from pathlib import Path

from maxkernel.api import RunOptions, open_session, start_run
from maxkernel.config import Settings
from maxkernel.report.graph_html import view_graph
from maxkernel.search.settings import SearchSettings
from maxkernel.store import RunFile, RunHeader
from maxkernel.tasks import task_from_text
from maxkernel.types import Budget, Candidate, Design, Evaluation, Plan, Time

TASK = """
import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}


def reference(x):
    return x * jax.nn.sigmoid(x)


def inputs(key):
    return jax.random.normal(key, (1024, 256))


def check_inputs(key):
    return jax.random.normal(key, (256, 256))
"""
KERNEL = """
import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TUNABLES = {"block": (256, 512, 128)}


def body(x_ref, out_ref):
    out_ref[...] = x_ref[...] * jax.nn.sigmoid(x_ref[...])


def kernel(x, *, block=256):
    spec = pl.BlockSpec((block, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        body,
        grid=(x.shape[0] // block,),
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=120 * 2**20),
    )(x)
"""


def test_a_kernel_of_another_target_is_judged_anew(tmp_path: Path) -> None:
    task = task_from_text("swish", "maxkernel", "t.py", {"t.py": TASK})
    header = RunHeader("v6e run", task, "v6e", "auto", Budget(), {}, time.time())
    with RunFile.create(tmp_path / "old", header) as run:
        plan = Plan("mine", "blocks of rows", "it fits", expected_seconds=1e-6)
        run.add_design(Design(7, plan, KERNEL, "plan"))
        candidate = Candidate(KERNEL, {"block": 128})
        found = Evaluation(candidate, task.digest, "v6e", "c", time=Time(1e-9, "measured"))
        run.add_evaluation(7, found)
    settings = Settings(cache_dir=str(tmp_path / "cache"), runs_dir=str(tmp_path / "runs"))
    options = RunOptions(
        search=SearchSettings(), use_memory=False, port_from=tmp_path / "old", allow_weak=True
    )
    with open_session("v7x", settings=settings) as session:
        _, folder = start_run(session, task, Budget(candidates=1), options)
    with RunFile.read(folder) as run:
        ((id, evaluation),) = run.evaluations()
        view, design = view_graph(run), run.design(id)
    assert evaluation.accepted and evaluation.target == "v7x", evaluation.failure
    assert evaluation.time is not None and evaluation.time.provenance == "simulated"
    assert evaluation.time.seconds > 1e-7
    assert evaluation.candidate.tunables == {"block": 128}
    assert design is not None and "60 * 2**20" in design.source
    assert [n.move for n in view.nodes if n.id == id] == ["port: from v6e"]
