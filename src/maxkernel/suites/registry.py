"""Finds suite tasks by name and loads them as text, in one of their editions."""

from __future__ import annotations

import ast
import difflib
import re
from pathlib import Path
from typing import Literal, cast

from maxkernel.errors import UsageError
from maxkernel.suites import jaxbench, models
from maxkernel.suites.entry import Edition, Entry, Published
from maxkernel.suites.jaxbench import registry as jaxbench_registry
from maxkernel.suites.models import registry as models_registry
from maxkernel.tasks import task_from_text
from maxkernel.types import Candidate, Task, Tolerance

Suite = Literal["jaxbench", "models"]

_REGISTRIES = {"jaxbench": jaxbench_registry, "models": models_registry}
_FOLDERS = {
    name: Path(cast(str, package.__file__)).parent / "tasks"
    for name, package in {"jaxbench": jaxbench, "models": models}.items()
}
_EXPERTS = Path(__file__).parent / "experts"


def names(suite: Suite) -> tuple[str, ...]:
    """Full names of a suite's tasks, in its own order."""
    return tuple(entry.name for entry in _entries(suite))


def entry(suite: Suite, name: str) -> Entry:
    """What the suite knows about a task, by full name or short id (`8p`, `w03`), in any case.

    Raises UsageError, listing close names, when there is no such task.
    """
    wanted = name.strip().lower()
    entries = _entries(suite)
    for known in entries:
        full = known.name.lower()
        if wanted in (full, full.partition("_")[0], known.file.lower().removesuffix(".py")):
            return known
    raise UsageError(f"{suite} has no task {name!r}", _suggestion(wanted, entries))


def load(suite: Suite, name: str, edition: Edition = "hardened") -> Task:
    """A task of a suite as text: one self-contained file, rewritten for the edition.

    Raises UsageError for an unknown suite, task or edition.
    """
    known = entry(suite, name)
    _check_edition(suite, edition)
    path = _FOLDERS[suite] / known.file
    text = path.read_text(encoding="utf-8")
    if edition != "hardened":
        atol, rtol = known.tolerances[edition]
        text = _replace(text, "EDITION", repr(edition).replace("'", '"'))
        text = _replace(text, "TOLERANCE", f'{{"atol": {atol}, "rtol": {rtol}}}')
    origin = f"{suite} suite, {edition} edition"
    return task_from_text(known.name, "maxkernel", known.file, {known.file: text}, origin)


def tolerance(suite: Suite, name: str, edition: Edition = "hardened") -> Tolerance:
    """Element-wise tolerance of a task in an edition."""
    task = load(suite, name, edition)
    literal = re.search(r"^TOLERANCE = (.*)$", task.files[task.entry], re.MULTILINE)
    assert literal is not None
    values = cast(dict[str, float], ast.literal_eval(literal[1]))
    return Tolerance(atol=values["atol"], rtol=values["rtol"], source="task")


def published(name: str) -> Published | None:
    """Published times of a JaxBench task; None for the model workloads, which have none."""
    if name.strip().lower().startswith("w"):
        return entry("models", name).published
    return entry("jaxbench", name).published


def expert(suite: Suite, name: str) -> Candidate | None:
    """Our own kernel for a task, the bar to clear; None where there is none."""
    file = entry(suite, name).expert
    return Candidate((_EXPERTS / file).read_text(encoding="utf-8")) if file else None


def _entries(suite: str) -> tuple[Entry, ...]:
    if suite not in _REGISTRIES:
        raise UsageError(f"no suite {suite!r}", f"the suites are {', '.join(_REGISTRIES)}")
    return _REGISTRIES[suite].ENTRIES


def _check_edition(suite: str, edition: str) -> None:
    editions = _REGISTRIES[suite].EDITIONS
    if edition not in editions:
        raise UsageError(
            f"{suite} has no edition {edition!r}", f"its editions are {', '.join(editions)}"
        )


def _replace(text: str, name: str, value: str) -> str:
    """Rewrites the module-level literal `name = ...`, which stands on a line of its own."""
    replaced, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
    assert count == 1, f"{count} lines define {name}"
    return replaced


def _suggestion(wanted: str, entries: tuple[Entry, ...]) -> str:
    spellings: dict[str, str] = {}
    for known in entries:
        short, _, title = known.name.lower().partition("_")
        spellings |= {short: known.name, title: known.name, known.name.lower(): known.name}
    close = difflib.get_close_matches(wanted, spellings, 8, 0.5)
    if len(wanted) > 2:
        close += [spelling for spelling in spellings if wanted in spelling]
    found = list(dict.fromkeys(spellings[spelling] for spelling in close))[:5]
    return f"close names: {', '.join(found or [entry.name for entry in entries])}"
