"""What a run remembers, as far as engineers read it."""

from __future__ import annotations

from typing import Protocol

from maxkernel.types import Design, Evaluation


class Archive(Protocol):
    """Designs and evaluations of a run; a `RunFile` is one."""

    def designs(self) -> list[Design]:
        """All designs, oldest first."""
        ...

    def evaluations(self) -> list[tuple[int, Evaluation]]:
        """(design id, evaluation) of every candidate, oldest first."""
        ...


class NoArchive:
    """The memory of a run that keeps none."""

    def designs(self) -> list[Design]:
        """None."""
        return []

    def evaluations(self) -> list[tuple[int, Evaluation]]:
        """None."""
        return []
