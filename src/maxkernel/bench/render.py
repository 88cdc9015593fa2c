"""The table for people: the same cells in the terminal, in Markdown and in HTML."""

from __future__ import annotations

import html

from maxkernel.bench.result import BenchResult, Row
from maxkernel.bench.summary import expert_ratio
from maxkernel.bench.words import (
    failure_lines,
    provenance_lines,
    summary_lines,
    title_of,
)
from maxkernel.report import quote_time
from maxkernel.types import WON, Time

HEAD = (
    "task",
    "XLA",
    "ours",
    "speedup",
    "of roofline",
    "best known",
    "verdict",
    "evaluations",
    "cost",
    "seconds",
    "remark",
)
CHECK = "published check"
"""Head of one column more, in editions whose checks can be passed without doing the work."""

SHORT_HEAD = (
    "task",
    "XLA (simulated)",
    "ours (simulated)",
    "speedup",
    "roof",
    "expert (simulated)",
    "published (measured)",
    "verdict",
    "n",
    "s",
)
"""For terminals, which are narrow: `n` evaluations in `s` seconds."""

WORDS = {
    "faster": "faster",
    "fits": "only ours fits",
    "xla": "XLA wins",
    "accepted": "accepted, not faster",
    "refused": "refused",
    "none": "no kernel",
    "timeout": "out of time",
    "error": "error",
}

_REMARK = 120
"""Characters of a remark; the list of failures has the whole message."""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 100rem; padding: 1rem }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8885 }}
td {{ vertical-align: top }}
tr.faster td:nth-child(4) {{ font-weight: 600 }}
tr.error, tr.timeout, tr.refused, tr.none {{ opacity: .75 }}
</style></head><body><h1>{title}</h1>{summary}<table><thead><tr>{head}</tr></thead>
<tbody>{rows}</tbody></table>{failures}{provenance}</body></html>
"""


def head_of(result: BenchResult) -> tuple[str, ...]:
    """Names of the columns."""
    return HEAD if result.settings.edition == "hardened" else (*HEAD, CHECK)


def cells(row: Row, *, check: bool = False) -> tuple[str, ...]:
    """One row in words, in the order of HEAD; with `check`, CHECK's column too."""
    shown = (
        row.task,
        "does not fit" if row.misfit else quote_time(row.baseline),
        quote_time(row.best),
        f"{row.speedup:.2f}x" if row.speedup else "-",
        f"{100 * row.roofline_fraction:.0f} %" if row.roofline_fraction else "-",
        _best_known(row),
        _verdict(row),
        str(row.evaluations),
        _cost(row),
        f"{row.seconds:.0f}",
        _remark(row),
    )
    return (*shown, _check(row)) if check else shown


def short_cells(row: Row) -> tuple[str, ...]:
    """One row for a terminal, in the order of SHORT_HEAD."""
    ratio = expert_ratio(row)
    against = f" ({ratio:.2f}x)" if ratio is not None else ""
    expert = _short(row.expert) + against if row.expert is not None else "-"
    best_published = row.published_pallas_ms or row.published_xla_ms
    return (
        row.task,
        "does not fit" if row.misfit else _short(row.baseline),
        _short(row.best),
        f"{row.speedup:.2f}x" if row.speedup else "-",
        f"{100 * row.roofline_fraction:.0f} %" if row.roofline_fraction else "-",
        "refused" if row.expert_problem else expert,
        f"{best_published:.4g} ms" if best_published else "-",
        _verdict(row),
        str(row.evaluations),
        f"{row.seconds:.0f}",
    )


def table_of(result: BenchResult) -> list[tuple[str, ...]]:
    """All rows, without the head."""
    check = head_of(result) != HEAD
    return [cells(row, check=check) for row in result.rows]


def render_markdown(result: BenchResult) -> str:
    """The table as Markdown, with its date, versions, sums, and the failures in words."""
    head = head_of(result)
    table = [head, ("---",) * len(head), *table_of(result)]
    lines = [f"### {title_of(result)}", ""]
    lines += [f"- {line}" for line in (*summary_lines(result), *provenance_lines(result))]
    lines += ["", *("| " + " | ".join(map(_escaped, row)) + " |" for row in table)]
    failures = failure_lines(result)
    if failures:
        lines += ["", "Tasks without a faster kernel, and why:", ""]
        lines += [f"- {_escaped(task)}: {_escaped(why)}" for task, why in failures]
    return "\n".join(lines) + "\n"


def render_html(result: BenchResult) -> str:
    """The table as one self-contained page."""
    body = "".join(
        f'<tr class="{row.outcome}">'
        + "".join(f"<td>{html.escape(c)}</td>" for c in shown)
        + "</tr>"
        for row, shown in zip(result.rows, table_of(result), strict=True)
    )
    failures = [f"{task}: {why}" for task, why in failure_lines(result)]
    return _PAGE.format(
        title=html.escape(title_of(result)),
        summary=_listed(summary_lines(result)),
        head="".join(f"<th>{html.escape(name)}</th>" for name in head_of(result)),
        rows=body,
        failures="<h2>Tasks without a faster kernel</h2>" + _listed(failures) if failures else "",
        provenance="<h2>How it was made</h2>" + _listed(provenance_lines(result)),
    )


def _listed(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>"


def _escaped(text: str) -> str:
    """Text that stays in its cell and is not taken for HTML."""
    flat = " ".join(text.split())
    return flat.replace("|", "\\|").replace("<", "&lt;")


def _short(time: Time | None) -> str:
    """A time whose column says that it is simulated; another provenance says so itself."""
    return quote_time(time).replace(" simulated", "")


def _best_known(row: Row) -> str:
    parts: list[str] = []
    ratio = expert_ratio(row)
    if row.expert is not None:
        against = f" (ours {ratio:.2f}x)" if ratio is not None else ""
        parts.append(f"expert {quote_time(row.expert)}{against}")
    elif row.expert_problem:
        parts.append(f"expert refused: {row.expert_problem[:_REMARK]}")
    if row.published_pallas_ms is not None:
        parts.append(f"published Pallas {row.published_pallas_ms:.4g} ms measured")
    if row.published_xla_ms is not None:
        parts.append(f"published XLA {row.published_xla_ms:.4g} ms measured")
    return "; ".join(parts) or "-"


def _verdict(row: Row) -> str:
    word = WORDS.get(row.outcome, row.outcome)
    return f"{word}; weak task" if row.passable else word


def _cost(row: Row) -> str:
    if row.cost is not None:
        return f"${row.cost:.2f}"
    return f"{row.tokens} tokens, price unknown" if row.tokens else "-"


def _remark(row: Row) -> str:
    if row.outcome in WON and row.plan:
        return row.plan
    text = f"no claim: {row.doubt}" if row.doubt else row.message or row.plan
    first = text.splitlines()[0] if text else ""
    return first if len(first) <= _REMARK else first[: _REMARK - 3] + "..."


def _check(row: Row) -> str:
    parts = [row.soundness or "-"]
    if row.weakness:
        parts.append(row.weakness)
    if row.holes:
        parts.append("found now: " + ", ".join(f"`{hole}` passes" for hole in row.holes))
    return ": ".join(parts[:2]) + ("; " + parts[2] if len(parts) > 2 else "")
