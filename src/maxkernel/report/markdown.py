"""report.md: the report for people."""

from __future__ import annotations

from maxkernel.report.model import (
    RunReport,
    describe_confirmation,
    quote,
    quote_baseline,
    quote_time,
)
from maxkernel.report.usage import ModelUse

OUTCOMES = {
    "faster": "A Pallas kernel beats XLA beyond the clock's expected error.",
    "fits": "A Pallas kernel runs where XLA's program does not fit in memory. There is no speedup.",
    "xla": "XLA's program stands: no accepted kernel beats it beyond the clock's expected error.",
    "none": "No kernel was accepted. The candidates below say why.",
}


def render_markdown(report: RunReport) -> str:
    """The whole report as Markdown."""
    parts = [
        f"# {report.task} on TPU {report.target}",
        OUTCOMES[report.outcome],
        _headline(report),
        _what(report),
        _numerics(report),
        _checklist(report),
        _candidates(report),
        _models(report),
        _provenance(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(report: RunReport) -> str:
    rows = [
        ("XLA baseline", quote_baseline(report)),
        ("best kernel", quote_time(report.best)),
        ("speedup", f"{report.speedup:.3f}x" if report.speedup else "-"),
        ("roofline bound", f"{quote_time(report.bound)}, limited by {report.limit}"),
        (
            "fraction of the roofline, XLA",
            f"{100 * report.baseline_fraction:.1f} %" if not report.misfit else "-",
        ),
        (
            "fraction of the roofline, best kernel",
            f"{100 * report.roofline_fraction:.1f} %" if report.roofline_fraction else "-",
        ),
    ]
    return _table(("what", "value"), rows)


def _what(report: RunReport) -> str:
    if not report.plan:
        return ""
    constants = ", ".join(f"`{k} = {v!r}`" for k, v in report.tunables.items()) or "none"
    return (
        f"## What the best kernel does\n\n{report.plan}.\n\n{report.explanation}\n\n"
        f"Tuned constants: {constants}."
    )


def _numerics(report: RunReport) -> str:
    if report.numerics is None:
        return ""
    rows = [
        (
            str(index),
            quote(o.max_abs),
            quote(o.rms),
            quote(o.reference_max_abs),
            quote(o.reference_rms),
            quote(o.spread),
            f"{100 * o.excess:.0f} %",
        )
        for index, o in enumerate(report.numerics.outputs)
    ]
    head = ("output", "max error", "RMS error", "reference max", "reference RMS", "spread", "used")
    shapes = ", ".join(map(str, report.check_inputs))
    confirmed = describe_confirmation(report.confirmation)
    confirmed = f"The winner was confirmed: {confirmed}. " if confirmed else ""
    return (
        "## Numerics\n\nThe TPU program itself, executed on the CPU. Errors against the "
        f"{report.numerics.oracle} oracle, on fresh inputs {shapes}. {confirmed}"
        "`used` is the largest share of its allowance that an element uses.\n\n"
        + _table(head, rows)
    )


def _checklist(report: RunReport) -> str:
    if not report.checklist:
        return ""
    words = {"proven": "proven", "measured": "measured", "unknown": "**not known**"}
    rows = [(words[item.kind], item.text.replace("|", "\\|")) for item in report.checklist]
    return (
        "## What this rests on\n\n"
        + _table(("how", "what"), rows)
        + "\n\n`maxkernel verify` on this folder judges it again."
    )


def _candidates(report: RunReport) -> str:
    rows = [
        (
            str(line.design),
            f"{line.move}: {line.strategy}",
            ", ".join(f"{k}={v}" for k, v in line.tunables.items()) or "defaults",
            quote_time(line.time),
            f"{line.speedup:.3f}x" if line.speedup else "-",
            line.fate.splitlines()[0][:160].replace("|", "\\|"),
        )
        for line in report.candidates
    ]
    head = ("design", "how", "tunables", "time", "speedup", "fate")
    return "## Every candidate\n\n" + _table(head, rows)


def _cost(use: ModelUse) -> str:
    if use.replayed == use.requests:
        return "replayed, nothing spent"
    return "price unknown" if use.cost is None else f"${use.cost:.4f}"


def _models(report: RunReport) -> str:
    if not report.models:
        return ""
    rows = [
        (
            use.model.replace("|", "\\|"),
            ", ".join(use.roles),
            f"{use.requests}" + (f" ({use.failed} failed)" if use.failed else ""),
            ("about " if use.estimated else "") + f"{use.input_tokens} / {use.output_tokens}",
            _cost(use),
        )
        for use in report.models
    ]
    head = ("model", "roles", "requests", "tokens in / out", "cost")
    return (
        "## Models\n\nThey proposed; none of their words is in a verdict. "
        f"`maxkernel show {report.run} --calls` prints what they said.\n\n" + _table(head, rows)
    )


def _provenance(report: RunReport) -> str:
    lines = [
        f"- run {report.run}, mode {report.mode}, ended: {report.reason}, "
        f"{report.seconds:.0f} s on this machine",
        f"- task digest {report.task_digest}",
        f"- inputs {', '.join(map(str, report.inputs))}; "
        f"outputs {', '.join(map(str, report.outputs))}",
        f"- tolerance atol {report.tolerance.atol:g}, rtol {report.tolerance.rtol:g} "
        f"({report.tolerance.source})",
        f"- sandbox: {report.sandbox}",
        "- versions: " + ", ".join(f"{k} {v}" for k, v in report.versions.items()),
        "- `simulated` times come from executing the schedule that the TPU compiler made, "
        "`bound` from the chip's peak figures, `measured` from a device's clock",
    ]
    lines += [f"- note: {note}" for note in report.notes]
    return "## Provenance\n\n" + "\n".join(lines)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows)]
    return "\n".join(lines)
