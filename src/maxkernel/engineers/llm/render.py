"""Turns values into prompt text of bounded length. Text from files is marked as data."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files

from maxkernel.engineers.llm.question import PROMPT_ROOM
from maxkernel.judge import Prepared
from maxkernel.schedule import digest
from maxkernel.types import (
    Evaluation,
    Failure,
    Graph,
    Outcome,
    Plan,
    ProgramTime,
    Task,
    TaskInfo,
)

GRAPH_LINES = 60
TASK_SHARE = 0.4
"""Part of a question's room that the task's own text may take."""
PLAN = 4000
"""Characters of a plan."""
HINT = "hint"
"""Family of the plans that carry people's words to planners."""
HINTS = 10
"""People's hints that are shown, the latest."""
HINT_LENGTH = 1000
"""Characters of a hint."""
DETAIL = 1500
"""Characters of a compiler's message."""


def prompt_file(name: str) -> str:
    """One of the written prompts: `prompts/NAME.md`."""
    return files("maxkernel.engineers.llm").joinpath("prompts", f"{name}.md").read_text().strip()


def data(name: str, text: str) -> str:
    """Marks text as material, never instructions; the text cannot end the mark itself."""
    inner = re.sub(r"<(/?)data", r"<\1 data", text.rstrip(), flags=re.IGNORECASE)
    safe = re.sub(r"[^\w ./:-]", "_", name)[:100]
    return f'<data name="{safe}">\n{inner}\n</data>'


def clip(text: str, limit: int) -> str:
    """At most `limit` characters, the middle left out."""
    if len(text) <= limit:
        return text
    half = max(0, (limit - 40) // 2)
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def describe_task(info: TaskInfo, prepared: Prepared | None = None, room: int = PROMPT_ROOM) -> str:
    """What must be computed: sizes, tolerance, cost, the reference's text or its graph."""
    lines = ["# Task", ""]
    for name, full, check in zip(info.input_names, info.inputs, info.check_inputs, strict=False):
        small = f" (check size {check})" if check != full else ""
        lines.append(f"- input {name}: {full}{small}")
    for place, value in sorted(info.statics.items()):
        lines.append(
            f"- argument {place} of the call is the Python constant {clip(repr(value), 80)}"
        )
    for place, output in enumerate(info.outputs):
        lines.append(f"- output {place}: {output}")
    lines.append(f"- tolerance: atol {info.tolerance.atol:g}, rtol {info.tolerance.rtol:g}")
    lines.append(
        f"- {info.flops:.3g} matrix operations, {info.io_bytes:.3g} bytes of inputs and outputs"
    )
    if prepared is not None:
        xla, bound = prepared.xla, prepared.bound.time
        needs = f"needs {micro(xla.seconds)} ({xla.provenance})" if xla else "does not fit in HBM"
        lines.append(f"- XLA {needs}; no program can be faster than {micro(bound.seconds)}")
        lines += ["", *_sources(prepared.task, int(room * TASK_SHARE))]
    else:
        lines += ["", "Operator graph of the reference:", data("graph", graph_text(info.graph))]
    return "\n".join(lines)


def _sources(task: Task, room: int) -> list[str]:
    share = room // max(1, len(task.files))
    ordered = sorted(task.files.items(), key=lambda item: item[0] != task.entry)
    return [data(f"task file {name}", clip(text, share)) for name, text in ordered]


def graph_text(graph: Graph, limit: int = GRAPH_LINES) -> str:
    """One line per operation; counts alone when there are too many."""
    if len(graph.nodes) > limit:
        counts = Counter(node.op for node in graph.nodes)
        return ", ".join(f"{op} x{count}" for op, count in counts.most_common())
    lines: list[str] = []
    for place in graph.inputs:
        value = graph.values[place]
        lines.append(f"%{place} = input {value.dtype}{list(value.shape)}")
    for node in graph.nodes:
        operands = ", ".join(_operand(graph, place) for place in node.inputs)
        results = ", ".join(f"%{place}" for place in node.outputs)
        kinds = ", ".join(
            f"{graph.values[p].dtype}{list(graph.values[p].shape)}" for p in node.outputs
        )
        lines.append(f"{results} = {node.op}({operands}) -> {kinds}")
    lines.append("return " + ", ".join(f"%{place}" for place in graph.outputs))
    return "\n".join(lines)


def _operand(graph: Graph, place: int) -> str:
    literal = graph.values[place].literal
    return f"%{place}" if literal is None else repr(literal)


def describe_plan(plan: Plan) -> str:
    """A plan as its author wrote it."""
    lines = [f"# Plan: {plan.strategy}", "", plan.reason]
    lines += [f"- {name}: {value}" for name, value in plan.options.items() if name != "by"]
    return clip("\n".join(lines), PLAN)


def describe_history(history: tuple[Outcome, ...], room: int) -> str:
    """What was tried, newest last. The oldest failures are left out first, then the oldest.

    What people said (`HINT` outcomes) comes after it, in full, and is theirs, not material.
    """
    hints = [outcome.plan for outcome in history if outcome.plan.family == HINT]
    history = tuple(outcome for outcome in history if outcome.plan.family != HINT)
    said = ""
    if hints:
        lines = [f"- {hint.reason}: {clip(hint.strategy, HINT_LENGTH)}" for hint in hints]
        said = "\n\n# From the person you work for\n\n" + "\n".join(lines[-HINTS:])
    return _tried(history, room - len(said)) + said


def _tried(history: tuple[Outcome, ...], room: int) -> str:
    if not history:
        return "# Tried so far\n\nNothing."
    lines = {place: _outcome(outcome) for place, outcome in enumerate(history)}
    best = min(
        (p for p, o in enumerate(history) if o.seconds is not None),
        key=lambda p: history[p].seconds or 0.0,
        default=-1,
    )
    expendable = [p for p in lines if history[p].seconds is None]
    expendable += [p for p in lines if history[p].seconds is not None and p != best]
    left_out = 0
    while sum(map(len, lines.values())) > room and expendable:
        del lines[expendable.pop(0)]
        left_out += 1
    note = f"\n({left_out} older ones left out)" if left_out else ""
    return "# Tried so far\n\n" + data("history", "\n".join(lines.values())) + note


def _outcome(outcome: Outcome) -> str:
    name = f"- {outcome.plan.strategy}"
    if outcome.design is not None:
        name += f" (design {outcome.design})"
    if outcome.seconds is None:
        word = "refused. " if "/" in outcome.failure.split(":")[0] else ""
        return f"{name}: {word}{clip(outcome.failure, 300)}"
    text = f"{name}: {micro(outcome.seconds)}"
    if outcome.speedup is not None:
        text += f", {outcome.speedup:.2f}x XLA"
    if outcome.tunables:
        text += ", best constants " + constants(outcome.tunables)
    return text + (f". {clip(outcome.bottleneck, 600)}" if outcome.bottleneck else "")


def describe_failure(failure: Failure, source: str) -> str:
    """A typed failure with the lines of the source that it speaks of."""
    lines = [f"# The judge refused it: {failure.stage}/{failure.kind}", ""]
    lines.append(data("message", clip(failure.message, DETAIL)))
    if failure.advice:
        lines.append(f"Advice: {failure.advice}")
    if failure.detail and failure.detail not in failure.message:
        lines.append(data("details", clip(failure.detail, DETAIL)))
    if failure.line is not None:
        lines.append(data(f"around line {failure.line}", around(source, failure.line)))
    return "\n".join(lines)


def around(source: str, line: int, context: int = 3) -> str:
    """A few numbered lines of a source, the given one marked."""
    numbered = list(enumerate(source.splitlines(), 1))
    near = [(n, text) for n, text in numbered if abs(n - line) <= context]
    return "\n".join(f"{'>' if n == line else ' '}{n:4} {text}" for n, text in near)


def describe_program(program: ProgramTime, source: str = "") -> str:
    """A profile in at most 60 lines; with the kernel's source, hot lines are quoted."""
    return "\n".join(digest(program, source=source))


def describe_evaluation(evaluation: Evaluation) -> str:
    """What the judge found, in a few lines."""
    chosen = evaluation.candidate.tunables
    lines = [f"Constants: {constants(chosen)}" if chosen else "Constants: the defaults"]
    if evaluation.facts is not None:
        for call in evaluation.facts.pallas_calls:
            blocks = [list(block) for block in call.blocks]
            lines.append(
                f"Kernel {call.name}: grid {list(call.grid)}, blocks {blocks}, "
                f"{call.block_bytes} bytes of blocks, {call.scratch_bytes} of scratch"
            )
    if evaluation.time is not None:
        lines.append(f"Time: {micro(evaluation.time.seconds)} ({evaluation.time.provenance})")
    if evaluation.numerics is not None:
        for place, error in enumerate(evaluation.numerics.outputs):
            lines.append(
                f"Output {place}: largest error {error.max_abs:.3g} (the reference's own "
                f"{error.reference_max_abs:.3g}), {error.excess:.3g} of what is allowed, "
                f"{error.nonfinite} not finite"
            )
    if evaluation.failure is not None:
        lines.append(describe_failure(evaluation.failure, evaluation.candidate.source))
    elif evaluation.accepted:
        lines.append("Accepted: every stage passed.")
    return "\n".join(lines)


def constants(values: dict[str, int | float | bool | str]) -> str:
    """`block_rows=256, unroll=2`."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def micro(seconds: float) -> str:
    """Seconds as microseconds with three digits."""
    return f"{seconds * 1e6:.4g} us"
