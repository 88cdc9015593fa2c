"""A Ray cluster of two nodes on this machine; one is killed while a search runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from maxkernel.api import load_task
from maxkernel.config import Settings
from maxkernel.engineers.team import Team
from maxkernel.judge import Cache, Judge
from maxkernel.modes import Finish, run_graph
from maxkernel.search import Context
from maxkernel.search.settings import SearchSettings
from maxkernel.store import RunFile, RunHeader
from maxkernel.targets import get_target
from maxkernel.types import Budget

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),
]
TASK = Path(__file__).parent / "data" / "small_rows.py"
BUDGET = Budget(candidates=6, patience=100)


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield found
    ray.shutdown()
    found.shutdown()


def settings(folder: Path) -> Settings:
    return Settings(
        cache_dir=str(folder), worker_python=os.environ.get("MAXKERNEL_WORKER_PYTHON", "")
    )


def search(folder: Path, cluster: Any, kill: Any = None) -> tuple[Finish, int]:
    """A search on the cluster; `kill` is a node to kill once three candidates are judged."""
    from maxkernel.executor.ray import RayExecutor

    executor = RayExecutor(settings(folder / "cache"), cluster.address)
    try:
        assert len(executor.hosts) == 2
        judge = Judge(executor, get_target("v6e"), settings(folder), Cache(folder / "cache"))
        task = load_task(TASK)
        header = RunHeader("r", task, "v6e", "graph", BUDGET, judge.versions, time.time())
        with RunFile.create(folder / "r", header) as run:
            prepared = judge.prepare(task)
            context = Context(run, judge, prepared, Team.builtin(), BUDGET, 2)
            if kill is not None:
                threading.Thread(target=_kill, args=(run, cluster, kill), daemon=True).start()
            finish = run_graph(context, SearchSettings(width=4))
            return finish, executor.lost
    finally:
        executor.close()


def _kill(run: RunFile, cluster: Any, node: Any) -> None:
    while len(run.evaluations()) < 3:
        time.sleep(0.05)
    cluster.remove_node(node, allow_graceful=False)


def test_a_killed_node_costs_its_jobs_and_nothing_else(cluster: Any, tmp_path: Path) -> None:
    nodes = [cluster.add_node(num_cpus=1, resources={"maxkernel": 1}) for _ in range(2)]
    calm, lost = search(tmp_path / "calm", cluster)
    assert lost == 0 and calm.best is not None and calm.best.evaluation.time is not None
    ray.shutdown()
    disturbed, lost = search(tmp_path / "disturbed", cluster, nodes[0])
    assert lost >= 1, "the node had work when it was killed"
    assert disturbed.best is not None and disturbed.best.evaluation.time is not None
    assert disturbed.best.evaluation.time.seconds == calm.best.evaluation.time.seconds
    assert disturbed.design == calm.design
