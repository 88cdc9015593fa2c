"""The loops over a kernel's heads: one, cut wherever all heads' triangular systems are solved
together."""

from __future__ import annotations

import re
from collections.abc import Sequence

from maxkernel.engineers.builtin.recurrence.writer import Writer


def head_loops(w: Writer, loads: Sequence[str], stores: Sequence[str], headed: str) -> list[str]:
    """The loops, at indentation 4. `loads` read a head's operands, in every loop that needs them;
    `headed` names a Ref with the heads first."""
    cuts = [0, *(place for place, _ in w.solves)]
    ends = [*cuts[1:], len(w.lines["head"])]
    pieces = [w.lines["head"][a:b] for a, b in zip(cuts, ends, strict=True)]
    pieces[-1] = [*pieces[-1], *stores]
    if not any(pieces):
        return []
    lines: list[str] = []
    header = f"for h in range({headed}_ref.shape[0]):"
    for i, piece in enumerate(pieces):
        later = _words([line for p in pieces[i + 1 :] for line in p])
        later |= _words([text for _, s in w.solves[i + 1 :] for text in (s.system, s.right)])
        made = _targets([line for p in pieces[: i + 1] for line in p]) + w.solved[:i]
        kept = [name for name in made if name in later]
        solve = w.solves[i][1] if i < len(w.solves) else None
        body = list(piece)
        if solve is not None:
            body.append(f"parts.append(({', '.join([solve.system, solve.right, *kept])}))")
            lines.append("    parts = []")
        own = [line for line in loads if set(_targets([line])) & _words(body)]
        first = [f"{w.solved[i - 1]} = solutions[h]"] if i else []
        lines += [f"    {header}", *(f"        {line}" for line in (*own, *first, *body))]
        if solve is not None:
            lines.append("    solutions = solve([part[:2] for part in parts])")
            names = ", ".join(["_", "_", *kept])
            header = f"for h, ({names}) in enumerate(parts):" if kept else header
    return lines


def _targets(lines: Sequence[str]) -> list[str]:
    """The names that statements assign."""
    return [line.split(" = ")[0] for line in lines if re.match(r"[a-z_0-9]+ = ", line)]


def _words(lines: Sequence[str]) -> set[str]:
    """The names in statements."""
    return {word for line in lines for word in re.findall(r"[A-Za-z_]\w*", line)}
