"""Do names and order matter? Every reference of the suites, rewritten but equal, is planned anew.

    python -m benchmarks.rewritten [TASK ...] [--suite jaxbench|models|all] [--target v6e]
        [--only REWRITING] [--keep FILE]

The rewritings: every name of the reference changed; the operands of sums and products of arrays
exchanged; module constants written out where they are used; the reference wrapped in jax.jit; and
jax.vmap in place of a batch dimension: the reference on a batch of one, mapped over the leading
dimension of some of its arguments. The last one counts where the oracles of both, on the check
size's inputs of one seed, are equal; else it is skipped, and the line says so.

All that the built-in planner says of a rewritten reference (families and strategies, in its order)
must be what it says of the original one. Prints one line per task and a sum; exits with 1 on a
difference. With --keep a task's line is taken from FILE where it is there, and added to it where it
is not; the sum says how many are of other sources of the planner than today's.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.rewritings import REWRITINGS, mapped, rewritten
from maxkernel import suites
from maxkernel.api import open_session
from maxkernel.api.session import Session
from maxkernel.bench.settings import digest_of
from maxkernel.engineers.roles import NoAnswer
from maxkernel.engineers.team import Team
from maxkernel.types import ArraySpec, Task, TaskInfo
from maxkernel.types.messages import OracleReply, OracleRequest, TraceReply, TraceRequest

VMAPPED = "vmapped"
NAMES = (*REWRITINGS, VMAPPED)
SEED = 11
EQUAL = 1e-3
"""Largest difference of two oracles, over the size of the values: they may add up in other orders,
some of them in float32."""

_PLANNING = ("engineers/builtin/", "worker/graph.py", "targets.py")
"""Sources of maxkernel on which plans depend."""

Answer = list[str] | str


@dataclass
class Found:
    """What the planner says of one reference and of its rewritings."""

    original: Answer
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    """Rewritings that are not equal, and why."""

    @property
    def differences(self) -> dict[str, Answer]:
        """The rewritings of which the planner says something else, and what."""
        return {name: said for name, said in self.answers.items() if said != self.original}

    def __str__(self) -> str:
        parts = [f"{name} is {said}" for name, said in self.differences.items()]
        text = f"{'; '.join(parts)}; was {self.original}" if parts else "same plans"
        return "; ".join([text, *(f"{name} skipped: {why}" for name, why in self.skipped.items())])


@dataclass(frozen=True)
class Row:
    """A task's line, what was asked, and which planner said so."""

    task: str
    digest: str
    target: str
    names: tuple[str, ...]
    code: str
    found: Found

    @property
    def asked(self) -> tuple[object, ...]:
        """What makes two rows answers to one question."""
        return self.task, self.digest, self.target, self.names


def planner_digest() -> str:
    """Names the sources that plans depend on."""
    return digest_of(lambda name: name.as_posix().startswith(_PLANNING))


class Kept:
    """Rows in a file of lines, or none; a line that was cut off by a kill is passed over."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows = dict[tuple[object, ...], Row]()
        for line in path.read_bytes().splitlines() if path and path.exists() else []:
            try:
                row = msgspec.json.decode(line, type=Row)
            except msgspec.DecodeError:
                continue
            self.rows[row.asked] = row

    def row(self, session: Session, task: Task, names: tuple[str, ...]) -> Row:
        """The kept row of a task, or a new one."""
        target = session.judge.target.name
        found = self.rows.get((task.name, task.digest, target, names))
        if found is None:
            said = examine(session, task, names)
            found = Row(task.name, task.digest, target, names, planner_digest(), said)
            if self.path:
                with self.path.open("ab") as file:
                    file.write(b"\n" + msgspec.json.encode(found) + b"\n")
        return found


def traced(session: Session, task: Task) -> TaskInfo | str:
    """What a worker finds out about a task, or why it cannot."""
    request = TraceRequest(task, session.judge.target.name, session.settings.check_limit_mb << 20)
    reply = session.executor.submit(request).result()
    return reply.info if isinstance(reply, TraceReply) else _reason(reply)


def answer(session: Session, info: TaskInfo) -> Answer:
    """Families and strategies of the built-in planner, in its order; or that there are none."""
    try:
        plans = Team.builtin().planner.plan(info, session.judge.target, ())
    except NoAnswer:
        return "no plan"
    return [f"{plan.family}: {plan.strategy}" for plan in plans]


def examine(session: Session, task: Task, names: tuple[str, ...] = NAMES) -> Found:
    """What the planner says of a task and of its rewritings; raises RuntimeError for a task, or a
    plain rewriting, that cannot be traced."""
    info = traced(session, task)
    if isinstance(info, str):
        raise RuntimeError(f"{task.name}: {info}")
    found = Found(answer(session, info))
    for name in names:
        if name == VMAPPED:
            _examine_mapped(session, task, info, found)
            continue
        other = traced(session, rewritten(task, REWRITINGS[name]))
        if isinstance(other, str):
            raise RuntimeError(f"{task.name}, {name}: {other}")
        found.answers[name] = answer(session, other)
    return found


def _examine_mapped(session: Session, task: Task, info: TaskInfo, found: Found) -> None:
    why = "no argument has the leading dimension of all results"
    for places in places_of_a_batch(info):
        other = rewritten(task, mapped(places))
        again = traced(session, other)
        if isinstance(again, str):
            why = again.removeprefix(f"{task.name}: ")
        elif again.outputs != info.outputs:
            why = "another shape"
        elif not _equal(session, task, other):
            why = "not equal"
        else:
            found.answers[VMAPPED] = answer(session, again)
            return
    found.skipped[VMAPPED] = why


def places_of_a_batch(info: TaskInfo) -> Iterator[tuple[int, ...]]:
    """Sets of arguments whose leading dimension may be a batch's, the largest sets first: at full
    and at check size it is as long as that of all results, and at check size longer than one."""
    arrays = [i for i in range(len(info.inputs) + len(info.statics)) if i not in info.statics]
    sizes = (_leading(info.outputs), _leading(info.check_outputs))
    if min(sizes) < 1 or sizes[1] < 2:
        return
    both = zip(arrays, info.inputs, info.check_inputs, strict=True)
    fit = [i for i, full, check in both if (_leading([full]), _leading([check])) == sizes]
    for count in range(len(fit), 0, -1):
        yield from itertools.combinations(fit, count)


def _leading(specs: list[ArraySpec] | tuple[ArraySpec, ...]) -> int:
    """The leading dimension that all arrays have; 0 where there is none."""
    found = {spec.shape[0] if spec.shape else 0 for spec in specs}
    return found.pop() if len(found) == 1 else 0


def _equal(session: Session, task: Task, other: Task) -> bool:
    """Whether two references give the same on one seed's inputs of the check size."""
    asked = [session.executor.submit(OracleRequest(t, SEED)) for t in (task, other)]
    first, second = (future.result() for future in asked)
    if not (isinstance(first, OracleReply) and isinstance(second, OracleReply)):
        return False
    assert first.inputs == second.inputs
    for a, b in zip(first.oracle, second.oracle, strict=True):
        x, y = (np.frombuffer(v.data, v.spec.dtype).astype(np.float64) for v in (a, b))
        finite = np.isfinite(x)
        scale = np.sqrt(np.mean(np.square(x[finite]))) if finite.any() else 0.0
        same = np.array_equal(x[~finite], y[~finite], equal_nan=True)
        if not same or np.any(np.abs(x - y)[finite] > EQUAL * (scale + np.abs(x[finite]))):
            return False
    return True


def _reason(reply: object) -> str:
    return str(getattr(getattr(reply, "failure", reply), "message", reply))


def main() -> None:
    """Prints a line per task, and a sum."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--suite", choices=("jaxbench", "models", "all"), default="jaxbench")
    parser.add_argument("--only", choices=NAMES, action="append")
    parser.add_argument("--target", default="v6e")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="rows are kept there")
    options = parser.parse_args()
    chosen = ("jaxbench", "models") if options.suite == "all" else (options.suite,)
    asked = [(suite, name) for suite in chosen for name in options.tasks or suites.names(suite)]
    names = tuple(name for name in NAMES if name in (options.only or NAMES))
    kept, rows = Kept(options.keep), list[Row]()
    with open_session(options.target, use_cache=False) as session:
        for suite, name in asked:
            rows.append(kept.row(session, suites.load(suite, name), names))
            print(f"{name}: {rows[-1].found}", flush=True)
    print(total(rows))
    sys.exit(any(row.found.differences for row in rows))


def total(rows: list[Row]) -> str:
    """The sum of all rows, one line per rewriting if there are several."""
    counts = {
        name: Counter(
            "skipped"
            if name in found.skipped
            else "different"
            if name in found.differences
            else "same"
            for found in (row.found for row in rows)
        )
        for name in sorted({n for row in rows for n in row.names}, key=NAMES.index)
    }
    lines = [f"{name}: {_sum(count)}" for name, count in counts.items()]
    whole = sum(counts.values(), Counter[str]())
    other = sum(row.code != planner_digest() for row in rows)
    lines.append(f"{len(rows)} tasks, {whole.total()} rewritings: {_sum(whole)}")
    if other:
        lines.append(f"{other} rows are of other sources than today's")
    return "\n".join(lines)


def _sum(count: Counter[str]) -> str:
    return ", ".join(f"{count[word]} {word}" for word in ("same", "different", "skipped"))


if __name__ == "__main__":
    main()
