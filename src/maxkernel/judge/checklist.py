"""What a verdict rests on: what was proven, what was measured, what could not be known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from maxkernel.judge.lint import describe_holes
from maxkernel.judge.prepared import Prepared
from maxkernel.judge.rules import CONSTANT_LIMIT_BYTES, pallas_share
from maxkernel.types import ArtifactFacts, Confirmation, Evaluation, Numerics, Time, Trial


class Item(msgspec.Struct, frozen=True):
    """One line of the checklist."""

    kind: Literal["proven", "measured", "unknown"]
    """`proven` by reading the program that is compiled, `measured` by executing it, `unknown`:
    nobody looked, or this machine cannot tell."""
    text: str


def checklist(
    prepared: Prepared, evaluation: Evaluation, confirmation: Confirmation | None
) -> tuple[Item, ...]:
    """The lines for an accepted kernel; a refused one has its failure instead."""
    if not evaluation.accepted:
        return ()
    facts, numerics = evaluation.facts, evaluation.numerics
    items: list[Item] = []
    if facts is not None:
        items += [Item("proven", text) for text in _proven(facts)]
        items += [Item("measured", text) for text in _work(facts, prepared)]
    if numerics is not None:
        items += _numbers(numerics)
    if evaluation.time is not None and evaluation.time.draws:
        items.append(Item("measured", _draws(evaluation.time)))
    items += _confirmed(numerics, confirmation)
    items += [Item("unknown", text) for text in _unknown(prepared, evaluation)]
    order = ("proven", "measured", "unknown")
    return tuple(sorted(items, key=lambda item: order.index(item.kind)))


def _proven(facts: ArtifactFacts) -> Iterator[str]:
    yield "the program that is compiled and timed is the one that was read and executed"
    yield "it takes and returns the reference's shapes and dtypes, at both sizes"
    yield "no callbacks, host memory, custom calls other than Pallas, donated inputs"
    yield f"{facts.constant_bytes} bytes of baked-in constants (limit {CONSTANT_LIMIT_BYTES})"


def _work(facts: ArtifactFacts, prepared: Prepared) -> Iterator[str]:
    names = [call.name for call in facts.pallas_calls if call.reaches_output]
    if names:
        shown = ", ".join(dict.fromkeys(names))
        yield f"the outputs change when the results of {shown} are falsified"
    share = pallas_share(facts, prepared.target)
    if share is not None:
        products = facts.flops_inside + facts.flops_outside
        part = f"; {100 * facts.flops_inside / products:.3g} % of the products" if products else ""
        yield f"kernels do {100 * share:.3g} % of the program's work{part}; XLA the rest"


def _numbers(numerics: Numerics) -> Iterator[Item]:
    worst = max(numerics.outputs, key=lambda output: output.excess)
    yield Item(
        "measured",
        f"right at check size on a secret seed ({numerics.seed}): {100 * worst.excess:.3g} % of "
        f"the allowance used, against the {numerics.oracle} oracle",
    )
    if not numerics.differences:
        yield Item("proven", "the full-size program is the checked one up to sizes")
    for difference in numerics.differences:
        yield Item("unknown", f"the full-size program is another one: {difference}")


def _draws(time: Time) -> str:
    """The times behind a mean over seeds."""
    each = ", ".join(f"{draw.seconds * 1e6:.4g} us (seed {draw.seed})" for draw in time.draws)
    spread = max(abs(draw.seconds / time.seconds - 1) for draw in time.draws)
    return f"the {time.provenance} time depends on the inputs: {each}; ±{100 * spread:.2g} %"


def _confirmed(numerics: Numerics | None, confirmation: Confirmation | None) -> Iterator[Item]:
    if confirmation is None:
        trials = numerics.trials if numerics is not None else ()
        yield from _trials(trials, "this kernel was tried on one in turn, not on all")
        yield Item(
            "unknown",
            "races, unwritten memory, determinism, the full size, further seeds: not looked for "
            "(`maxkernel judge` without --quick does)",
        )
        return
    yield Item("measured", f"right on {confirmation.seeds} further secret seeds")
    yield from _trials(confirmation.trials, "")
    yield Item(
        "measured",
        f"bit-equal in {confirmation.hazard_runs} runs: repeated, with other contents of unwritten "
        "memory, other timing of DMAs, another order of parallel grid steps",
    )
    spot = confirmation.spot
    if spot is None or spot.skipped:
        reason = spot.skipped if spot else "it was not run"
        yield Item("unknown", f"values at full size: no spot check ({reason})")
        return
    yield Item(
        "measured",
        f"right at full size in {spot.blocks} random blocks: {spot.elements} elements, "
        f"{spot.steps} steps run of a grid of {spot.total_steps}",
    )


def _trials(trials: Sequence[Trial], rest: str) -> Iterator[Item]:
    ran = dict.fromkeys(_named(trial) for trial in trials if not trial.skipped)
    skipped = dict.fromkeys(f"{trial.name} ({trial.skipped})" for trial in trials if trial.skipped)
    if ran:
        yield Item("measured", f"right on other inputs: {', '.join(ran)}")
    if skipped:
        yield Item("unknown", f"inputs that tell nothing here: {', '.join(skipped)}")
    if rest:
        yield Item("unknown", f"other distributions of inputs: {rest}")


def _named(trial: Trial) -> str:
    return f"{trial.name} ({trial.how})" if trial.how else trial.name


def _unknown(prepared: Prepared, evaluation: Evaluation) -> Iterator[str]:
    time, facts = evaluation.time, evaluation.facts
    if time is not None and time.provenance == "simulated":
        yield "time on a device: this one comes from the compiled schedule"
    elif time is not None and time.provenance == "bound":
        yield "time: no schedule could be read; the roofline bound stands in for it"
    if facts is not None and facts.rounded_products:
        yield (
            f"{facts.rounded_products} f32 products at default precision: the MXU rounds their "
            "operands to bf16, as it does the reference's own if that asks for no more"
        )
    if evaluation.sandbox == "none":
        yield "isolation: the kernel's Python ran without a sandbox"
    if prepared.lint.holes:
        yield f"the task's check can be passed without its work: {describe_holes(prepared.lint)}"
