"""Rewrites of loops inside kernels."""

from __future__ import annotations

import ast

from maxkernel.engineers.rewrites.edits import Edits, keyword, last_argument


def unroll(source: str, factor: int) -> str | None:
    """Every `fori_loop` inside a kernel unrolled `factor` times: iterations overlap."""
    edits = Edits(source)
    for function in edits.functions():
        for call in edits.calls("fori_loop", function):
            given = keyword(call, "unroll")
            if given is None and len(call.args) == 4:
                edits.append(last_argument(call), f", unroll={factor}")
            elif isinstance(given, ast.Constant) and given.value != factor:
                edits.replace(given, str(factor))
    return edits.result()
