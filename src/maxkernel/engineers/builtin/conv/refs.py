"""The Refs that hold a convolution's statistics, whatever lies in the lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.conv.match import ConvProgram
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.hints import hint
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.text import Names


@dataclass(frozen=True)
class StatisticRefs:
    """A Ref per statistic and per guess of a mean, and the scope of the code that uses them."""

    conv: ConvProgram
    params: list[str]
    """Refs of the epilogue's inputs."""
    module: Module
    names: Names
    stats: dict[int, str]
    guessed: dict[int, str]
    """Refs of the guesses of those means that a variance is taken about."""
    at: str = "[...]"
    """Index of what a step reads of a Ref."""

    @classmethod
    def of(cls, conv: ConvProgram, params: list[str], module: Module, names: Names) -> Self:
        """One Ref per statistic, named after it, and one per guess."""
        stats = {s.term: names.new(f"{hint(conv.program, s.term)}_ref") for s in conv.statistics}
        about = [s.about for s in conv.statistics if s.about is not None]
        guessed = {term: names.new("guess_ref") for term in dict.fromkeys(about)}
        return cls(conv, params, module, names, stats, guessed)

    @property
    def refs(self) -> list[str]:
        """Every Ref."""
        return [*self.stats.values(), *self.guessed.values()]

    def scope(self, level: int) -> Scope:
        """Names of the products, the parameters and the statistics below `level`."""
        conv = self.conv

        def absent(what: tuple[int, ...]) -> Code:
            raise Unsupported("an index or a size after the convolution")

        cols, axis = self._columns()
        scope = Scope(
            program=conv.program,
            rows=frozenset(),
            cols=cols,
            load=lambda t: Code(f"{self.params[conv.params.index(t)]}[...]"),
            iota=absent,
            size=absent,
            names=self.names,
            helpers=self.module.helpers,
            constants=self.module.constants,
            axis=axis,
        )
        scope.known[conv.term] = Code("c")
        for s in conv.statistics:
            if s.level < level:
                scope.known[s.term] = Code(f"{self.stats[s.term]}{self.at}")
        return scope

    def _columns(self) -> tuple[Dim, int]:
        """The axes that code may reduce, and along which dimension of a block they lie."""
        return (), 1
