"""`load_task`, `optimize` and `judge` for Python callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from maxkernel import suites, tasks
from maxkernel.api.runs import RunOptions, start_run
from maxkernel.api.session import open_session
from maxkernel.api.team import check_models, models_of
from maxkernel.config import Settings, load_settings
from maxkernel.engineers.llm import LlmBudget
from maxkernel.engineers.team import Team
from maxkernel.errors import UsageError
from maxkernel.report import RunReport
from maxkernel.search import Progress, Silent
from maxkernel.store import find_run
from maxkernel.types import Budget, Candidate, Task, Tunable, Verdict


def load_task(path: str | Path) -> Task:
    """The task at a file or folder, or of a suite (`jaxbench:12p`, `models:w03`), as text.

    `jaxbench:12p@published` takes another edition. Raises UsageError or TaskError.
    """
    suite, colon, name = str(path).partition(":")
    if colon and suite in ("jaxbench", "models"):
        name, _, edition = name.partition("@")
        return suites.load(suite, name, cast(suites.Edition, edition or "hardened"))
    return tasks.load_task(path)


def optimize(
    task: Task | str | Path,
    *,
    target: str = "v6e",
    budget: Budget | None = None,
    team: Team | None = None,
    models: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    model_budget: LlmBudget | None = None,
    record: str | Path | None = None,
    replay: str | Path | None = None,
    port_from: str | Path | None = None,
    progress: Progress | None = None,
    settings: Settings | None = None,
    unsafe_no_sandbox: bool = False,
) -> RunReport:
    """Searches for a kernel that beats XLA on `task`, within `budget`; the bundle is written
    to the runs folder. Raises MaxkernelError for anything the caller can cure.

    `models` fill the roles of the team, within `model_budget`: one notation or several for all
    roles, or by role (`{"planner": "anthropic:NAME", "default": ["openai:NAME"]}`). What they are
    asked and answer is also written to `record`; `replay` is such a file that answers instead.
    `port_from` names a run of the same task for another target (its name, a unique start of it,
    `last`, or a path): its accepted designs are judged anew for this one.
    """
    loaded = task if isinstance(task, Task) else load_task(task)
    chosen = models_of(models, model_budget, replay)
    traffic = Path(record) if record is not None else None
    check_models(chosen, traffic)
    known = settings or load_settings()
    source = find_run(known.runs_path, str(port_from)) if port_from is not None else None
    options = RunOptions(
        team or Team.builtin(),
        progress or Silent(),
        models=chosen,
        port_from=source,
        record=traffic,
    )
    with open_session(target, settings=known, unsafe_no_sandbox=unsafe_no_sandbox) as session:
        return start_run(session, loaded, budget or Budget(), options)[0]


def judge(
    task: Task | str | Path,
    kernel: str | Path,
    *,
    target: str = "v6e",
    tunables: dict[str, Tunable] | None = None,
    settings: Settings | None = None,
    unsafe_no_sandbox: bool = False,
) -> Verdict:
    """The judge's verdict on a kernel: `kernel` is a path to a file, or source text.

    A string with a line break is source text. Raises MaxkernelError for the caller's faults;
    a refused kernel is a Verdict, not an exception.
    """
    loaded = task if isinstance(task, Task) else load_task(task)
    candidate = Candidate(read_kernel(kernel), tunables or {})
    with open_session(target, settings=settings, unsafe_no_sandbox=unsafe_no_sandbox) as session:
        prepared = session.judge.prepare(loaded)
        return session.judge.verdict(prepared, session.judge.evaluate(prepared, candidate))


def read_kernel(kernel: str | Path) -> str:
    """The source of a kernel given as path or text."""
    if isinstance(kernel, str) and "\n" in kernel:
        return kernel
    path = Path(kernel)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"no kernel at {path}: the file does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the kernel {path}: {error}") from error
