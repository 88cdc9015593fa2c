"""Do names and order matter? Every reference of the suites, rewritten but equal, is planned anew.

    python -m benchmarks.rewritten [TASK ...] [--suite jaxbench|models] [--target v6e]

The rewritings: every name of the reference changed; the operands of sums and products of arrays
exchanged; module constants written out where they are used; the reference wrapped in jax.jit. All
that the built-in planner says of a rewritten reference (families and strategies, in its order)
must be what it says of the original one. Prints one line per task; exits with 1 on a difference.
"""

from __future__ import annotations

import argparse
import ast
import copy
import sys
from collections.abc import Callable

from maxkernel import suites
from maxkernel.api import open_session
from maxkernel.api.session import Session
from maxkernel.engineers.roles import NoAnswer
from maxkernel.engineers.team import Team
from maxkernel.tasks import task_from_text
from maxkernel.types import Task
from maxkernel.types.messages import TraceReply, TraceRequest

ENTRY = "reference"


class _Rename(ast.NodeTransformer):
    """Gives every parameter and local name of the functions that it visits another name."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self.names:
            node.id = f"z_{len(node.id)}_{node.id[::-1]}"
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        if node.arg in self.names:
            node.arg = f"z_{len(node.arg)}_{node.arg[::-1]}"
        return node


class _Commute(ast.NodeTransformer):
    """Exchanges the operands of + and *, but of shapes and other tuples, whose order matters."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.BinOp:
        self.generic_visit(node)
        plain = not any(
            isinstance(part, ast.Tuple | ast.List) or _is_shape(part)
            for side in (node.left, node.right)
            for part in ast.walk(side)
        )
        if plain and isinstance(node.op, ast.Add | ast.Mult):
            node.left, node.right = node.right, node.left
        return node


class _Inline(ast.NodeTransformer):
    """Writes out module constants that are numbers."""

    def __init__(self, values: dict[str, ast.Constant]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self.values.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return ast.copy_location(ast.Constant(found.value), node) if found else node


def _is_shape(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def _reference(tree: ast.Module) -> ast.FunctionDef:
    return next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == ENTRY)


def _local_names(function: ast.FunctionDef) -> set[str]:
    stored = {
        n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return stored | {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}


def renamed(tree: ast.Module) -> None:
    """Another name for every parameter and local variable of the reference."""
    function = _reference(tree)
    keywords = {k.arg for k in ast.walk(function) if isinstance(k, ast.keyword)}
    _Rename(_local_names(function) - keywords).visit(function)


def commuted(tree: ast.Module) -> None:
    """a + b becomes b + a, a * b becomes b * a."""
    _Commute().visit(_reference(tree))


def inlined(tree: ast.Module) -> None:
    """EPS = 1e-5 becomes 1e-5 where the reference uses it."""
    values = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, int | float)
    }
    _Inline(values).visit(_reference(tree))


def jitted(tree: ast.Module) -> None:
    """The reference calls its old self through jax.jit."""
    _reference(tree).name = "_inner_reference"
    tree.body += ast.parse(
        f"import jax\n\ndef {ENTRY}(*arrays):\n    return jax.jit(_inner_reference)(*arrays)\n"
    ).body


REWRITINGS: dict[str, Callable[[ast.Module], None]] = {
    "renamed": renamed,
    "commuted": commuted,
    "inlined": inlined,
    "jitted": jitted,
}


def rewritten(task: Task, change: Callable[[ast.Module], None]) -> Task:
    """The task with its reference rewritten."""
    tree = copy.deepcopy(ast.parse(task.files[task.entry]))
    change(tree)
    text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    return task_from_text(task.name, task.format, task.entry, {task.entry: text}, task.origin)


def answer(session: Session, task: Task) -> list[str] | str:
    """Families and strategies of the built-in planner, in its order; or why there are none."""
    request = TraceRequest(task, session.judge.target.name, session.settings.check_limit_mb << 20)
    reply = session.executor.submit(request).result()
    if not isinstance(reply, TraceReply):
        raise RuntimeError(f"{task.name}: {getattr(reply, 'failure', reply)}")
    try:
        plans = Team.builtin().planner.plan(reply.info, session.judge.target, ())
    except NoAnswer:
        return "no plan"
    return [f"{plan.family}: {plan.strategy}" for plan in plans]


def differences(session: Session, task: Task) -> dict[str, object]:
    """What the planner says of the rewritten references where it is not what it said before."""
    before = answer(session, task)
    after = {name: answer(session, rewritten(task, how)) for name, how in REWRITINGS.items()}
    return {name: found for name, found in after.items() if found != before} and {
        "original": before,
        **{name: found for name, found in after.items() if found != before},
    }


def main() -> None:
    """Prints a line per task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--suite", choices=("jaxbench", "models"), default="jaxbench")
    parser.add_argument("--target", default="v6e")
    options = parser.parse_args()
    failed = 0
    names = options.tasks or suites.names(options.suite)
    with open_session(options.target, use_cache=False) as session:
        for name in names:
            found = differences(session, suites.load(options.suite, name))
            failed += bool(found)
            print(f"{name}: {found or 'same plans'}", flush=True)
    print(f"{len(names) - failed} of {len(names)} references are planned alike when rewritten")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
