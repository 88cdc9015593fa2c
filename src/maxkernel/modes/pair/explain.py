"""Answers and explanations: a model's where the team has one, else facts in plain words."""

from __future__ import annotations

from collections.abc import Callable

from maxkernel.modes.pair.acts import Ask, Focus
from maxkernel.modes.pair.facts import evaluation_of, find_design
from maxkernel.modes.pair.glossary import WORDS, calls_by_line
from maxkernel.search import Context
from maxkernel.types import Design, Evaluation, PallasCall

Search = Callable[[str], list[tuple[str, str]]]
"""Looks a question up in the guide: (title, passage), best first."""

CAN_DO = (
    "No model is configured, so the built-in team answers. It can: propose plans (/plan), write "
    "kernels (/implement), judge, repair, tune and profile them, and explain a kernel line by "
    "line (/explain 10-30). /help lists every command."
)


def explain_text(context: Context, key: str, focus: Focus, ask: Ask) -> str:
    """What a kernel (or lines of it) does, and what limits it."""
    design = find_design(context.run, focus.design)
    evaluation = evaluation_of(context.run, focus)
    explainer = context.team.explainer
    if explainer is not None and evaluation is not None:
        question = ask.text or (f"Explain lines {ask.first} to {ask.last}." if ask.first else "")
        prepared, judged = context.prepared, evaluation
        return context.run.step(
            f"{key}/explain",
            str,
            lambda: explainer.explain(prepared.info, judged, prepared.target, question),
        )
    if ask.first:
        return _lines(design.source, ask.first, ask.last)
    return _whole(context, design, evaluation)


def answer_text(context: Context, key: str, focus: Focus | None, text: str, search: Search) -> str:
    """The team's answer to free text."""
    explainer = context.team.explainer
    evaluation = evaluation_of(context.run, focus) if focus is not None else None
    if explainer is not None and evaluation is not None:
        prepared, judged = context.prepared, evaluation
        return context.run.step(
            f"{key}/answer",
            str,
            lambda: explainer.explain(prepared.info, judged, prepared.target, text),
        )
    passages = [f"- {title}: {passage}" for title, passage in search(text)]
    guide = "\n\nThe guide says:\n" + "\n".join(passages) if passages else ""
    return CAN_DO + guide


def _whole(context: Context, design: Design, evaluation: Evaluation | None) -> str:
    plan = design.plan
    parts = [f"Design {design.id}, {plan.family}: {plan.strategy}.", plan.reason]
    if evaluation is None:
        parts.append("It was not judged yet: /judge says whether it is right and how fast.")
        return "\n\n".join(part for part in parts if part)
    for call in evaluation.facts.pallas_calls if evaluation.facts else ():
        parts.append(_call_words(call))
    if evaluation.program is not None:
        profile = context.team.profiler.diagnose(
            context.prepared.info, evaluation.program, context.prepared.target
        )
        parts.append(profile.text + ".")
    if evaluation.failure is not None:
        parts.append(f"It was refused: {evaluation.failure.message}")
    return "\n\n".join(part for part in parts if part)


def _call_words(call: PallasCall) -> str:
    grid = " x ".join("?" if n < 0 else str(n) for n in call.grid) or "1"
    blocks = ", ".join("x".join(map(str, block)) for block in call.blocks)
    return (
        f"Kernel `{call.name}` runs over a grid of {grid}. Each step sees blocks of {blocks}; two "
        f"sets of them take {2 * call.block_bytes / 1e6:.3g} MB of VMEM, scratch "
        f"{call.scratch_bytes / 1e6:.3g} MB."
    )


def _lines(source: str, first: int, last: int) -> str:
    lines, calls = source.splitlines(), calls_by_line(source)
    told: list[str] = []
    for number in range(max(1, first), min(last, len(lines)) + 1):
        told.append(f"{number:4d}  {lines[number - 1]}")
        for call in dict.fromkeys(calls.get(number, [])):
            if call in WORDS:
                told.append(f"      ^ {call}: {WORDS[call]}")
    if not told:
        return f"the kernel has {len(lines)} lines"
    return "\n".join(told)
