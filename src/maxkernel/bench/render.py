"""The table for people: the same cells in the terminal, in Markdown and in HTML."""

from __future__ import annotations

import html
import time

from maxkernel.bench.result import BenchResult, Row, summarise
from maxkernel.report import quote_time

HEAD = (
    "task",
    "XLA",
    "ours",
    "speedup",
    "of roofline",
    "best known",
    "verdict",
    "evaluations",
    "seconds",
    "remark",
)

WORDS = {
    "faster": "faster",
    "xla": "XLA wins",
    "accepted": "accepted, not faster",
    "refused": "refused",
    "none": "no kernel",
    "weak": "weak task",
    "error": "error",
}

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 1rem }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8885 }}
td.faster {{ font-weight: 600 }}
</style></head><body><h1>{title}</h1><p>{summary}</p><table><thead><tr>{head}</tr></thead>
<tbody>{rows}</tbody></table><p>{provenance}</p></body></html>
"""


def cells(row: Row) -> tuple[str, ...]:
    """One row in words, in the order of HEAD."""
    return (
        row.task,
        quote_time(row.baseline),
        quote_time(row.best),
        f"{row.speedup:.2f}x" if row.speedup else "-",
        f"{100 * row.roofline_fraction:.0f} %" if row.roofline_fraction else "-",
        _best_known(row),
        WORDS.get(row.outcome, row.outcome),
        str(row.evaluations),
        f"{row.seconds:.0f}",
        row.plan
        if row.outcome == "faster"
        else row.message.splitlines()[0][:90]
        if row.message
        else row.plan,
    )


def summary_line(result: BenchResult) -> str:
    """What the table adds up to, in one sentence."""
    s = summarise(result.rows)
    experts = f", wins against experts {s.beats_expert} of {s.experts}" if s.experts else ""
    return (
        f"{s.tasks} tasks: correct {s.correct}, faster than XLA {s.faster}, geometric mean of "
        f"max(1, speedup) {s.geometric_mean:.3f}, median {s.median:.3f}{experts}"
    )


def provenance_line(result: BenchResult) -> str:
    """How the table was made."""
    given = result.settings
    versions = ", ".join(f"{k} {v}" for k, v in result.versions.items())
    day = time.strftime("%Y-%m-%d", time.gmtime(result.created))
    return (
        f"suite {given.suite}, edition {given.edition}, target {given.target}, team {given.team}, "
        f"mode {given.mode}, at most {given.candidates} candidates and {given.seconds:.0f} s a "
        f"task; {versions}; sandbox {result.sandbox}; {day}. Published times are measured on a "
        "device by others and are never divided by simulated ones."
    )


def render_markdown(result: BenchResult) -> str:
    """The table as Markdown."""
    lines = [summary_line(result) + ".", "", provenance_line(result), ""]
    table = [HEAD, ("---",) * len(HEAD), *(cells(row) for row in result.rows)]
    lines += ["| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in table]
    return "\n".join(lines) + "\n"


def render_html(result: BenchResult) -> str:
    """The table as one self-contained page."""
    title = f"{result.settings.suite} on TPU {result.settings.target}"
    rows = "".join(
        "<tr>"
        + "".join(f'<td class="{row.outcome}">{html.escape(c)}</td>' for c in cells(row))
        + "</tr>"
        for row in result.rows
    )
    return _PAGE.format(
        title=html.escape(title),
        summary=html.escape(summary_line(result)),
        head="".join(f"<th>{html.escape(name)}</th>" for name in HEAD),
        rows=rows,
        provenance=html.escape(provenance_line(result)),
    )


def _best_known(row: Row) -> str:
    parts: list[str] = []
    if row.expert is not None:
        parts.append(f"expert {quote_time(row.expert)}")
    if row.published_pallas_ms is not None:
        parts.append(f"published Pallas {row.published_pallas_ms:.4g} ms measured")
    if row.published_xla_ms is not None:
        parts.append(f"published XLA {row.published_xla_ms:.4g} ms measured")
    return "; ".join(parts) or "-"
