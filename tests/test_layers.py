"""Imports go one way, and only workers (and task files) import jax."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "maxkernel"

LAYERS = [
    {"types", "errors", "targets", "config", "parsing"},
    {"tasks", "schedule", "store", "sandbox", "knowledge"},
    {"worker", "executor"},
    {"judge"},
    {"tuner", "engineers"},
    {"search"},
    {"modes"},
    {"report", "suites"},
    {"api"},
    {"bench"},
    {"cli", "web"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
WORKER_MAY = {"types", "targets", "schedule", "errors", "worker"}
JAX_ROOMS = {"worker", "suites"}


def room(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


MODULES = [p for p in sorted(SRC.rglob("*.py")) if p.parent != SRC or p.name != "__init__.py"]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_down(path: Path) -> None:
    here = room(path)
    for module in imports(path):
        if not module.startswith("maxkernel."):
            continue
        there = module.split(".")[1]
        assert RANK[there] <= RANK[here], f"{path} ({here}) imports {module}"
        if here == "worker":
            assert there in WORKER_MAY, f"{path} imports {module}"
        if there == "worker":
            assert here == "worker", f"{path} imports {module}: talk to workers by messages"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_jax_stays_in_workers(path: Path) -> None:
    if room(path) in JAX_ROOMS:
        return
    heavy = {m for m in imports(path) if m.split(".")[0] in {"jax", "jaxlib", "libtpu"}}
    assert not heavy, f"{path} imports {heavy}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 320, f"{path}: a long file wants to be a folder"
