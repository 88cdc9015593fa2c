"""One module out of several: a function per kernel, and `kernel`, which calls them."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from maxkernel.engineers.builtin.module import Module
from maxkernel.types import TunableSpace


@dataclass
class Part:
    """A module taken apart. Names are as in the joined module."""

    tunables: TunableSpace
    """By the name that its function knows them by."""
    constants: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    functions: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def defined(self) -> dict[str, object]:
        """Everything that it defines, by name."""
        return {**self.constants, **self.functions}


def take_apart(source: str, name: str) -> Part:
    """The parts of an emitted module, its `kernel` called `name`."""
    tree = ast.parse(source)
    lines = source.split("\n")
    part = Part({})
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            part.functions[node.name] = "\n".join(lines[_start(node) - 1 : node.end_lineno])
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            target = node.targets[0].id
            if target == "TUNABLES":
                part.tunables = ast.literal_eval(node.value)
            else:
                value = ast.get_source_segment(source, node.value) or ""
                rest = lines[(node.end_lineno or 1) - 1][node.end_col_offset or 0 :]
                part.constants[target] = (value, rest.partition("#")[2].strip())
    return renamed(part, {"kernel": name})


def _start(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def renamed(part: Part, names: Mapping[str, str]) -> Part:
    """The part with other names for some of what it defines."""
    return Part(
        part.tunables,
        {names.get(k, k): (_substituted(v, names), why) for k, (v, why) in part.constants.items()},
        {names.get(k, k): _substituted(text, names) for k, text in part.functions.items()},
    )


def _substituted(text: str, names: Mapping[str, str]) -> str:
    """Source text with other identifiers; attributes and keywords of calls keep theirs."""
    lines = text.split("\n")
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    depth, moved = 0, dict[int, int]()
    for i, token in enumerate(tokens):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
        new = names.get(token.string) if token.type == tokenize.NAME else None
        keyword = depth > 0 and tokens[i + 1].string == "=" if new else False
        if new is None or keyword or (i and tokens[i - 1].string == "."):
            continue
        row, column = token.start
        at = column + moved.get(row, 0)
        line = lines[row - 1]
        lines[row - 1] = line[:at] + new + line[at + len(token.string) :]
        moved[row] = moved.get(row, 0) + len(new) - len(token.string)
    return "\n".join(lines)


def joined(parts: Sequence[Part], module: Module) -> None:
    """Adds all parts to a module; what they define differently under one name is renamed."""
    known: dict[str, object] = {}
    for position, part in enumerate(parts, 1):
        clash = {
            name: f"{name}_{position}"
            for name, value in part.defined.items()
            if name in known and known[name] != value
        }
        part = renamed(part, clash)
        module.constants.update(part.constants)
        module.functions += [t for name, t in part.functions.items() if name not in known]
        known.update(part.defined)
