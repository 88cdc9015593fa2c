"""Python source as safe HTML, line by line."""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

_LEXER: Any = PythonLexer(stripnl=False)
_FORMATTER: Any = HtmlFormatter(nowrap=True)


def highlighted(source: str) -> list[str]:
    """The lines, with classes for tokens; everything that the source holds is escaped."""
    rendered: str = highlight(source, _LEXER, _FORMATTER)
    return rendered.rstrip("\n").split("\n")
