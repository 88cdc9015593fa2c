"""What an artifact contains: a program around kernels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from maxkernel.worker.mosaic.syntax import DYNAMIC, Func, Type


@dataclass(frozen=True, slots=True)
class Window:
    """How one operand or result of a kernel is cut into blocks.

    `transform` maps grid indices (and scalar-prefetch refs) to block indices, or to element
    offsets when `element` is set; None means that the kernel gets the whole array.
    """

    bounds: tuple[int, ...]
    transform: Func | None
    element: bool = False
    pad_low: tuple[int, ...] = ()
    pad_high: tuple[int, ...] = ()
    pipeline_mode: str = ""

    def start(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """First element of the block with this index, before clipping to the array."""
        if self.element:
            return tuple(i - p for i, p in zip(index, self.pad_low, strict=True))
        return tuple(i * n for i, n in zip(index, self.bounds, strict=True))


@dataclass(frozen=True, slots=True)
class Kernel:
    """One `tpu_custom_call`.

    Operands of the call are: dynamic grid bounds, scalar-prefetch arrays, inputs. Arguments of
    `body` are: grid indices, scalar-prefetch refs, input refs, output refs, scratch refs.
    """

    name: str
    body: Func
    grid: tuple[int, ...]
    """Trip counts; `DYNAMIC` where the bound is an operand."""
    semantics: tuple[str, ...]
    prefetch: int
    windows: tuple[Window, ...]
    """One per input and output, in order."""
    scratch: tuple[Type, ...]
    inputs: tuple[Type, ...]
    """Tensor types of the operands after dynamic bounds and scalar prefetch."""
    prefetched: tuple[Type, ...]
    outputs: tuple[Type, ...]
    aliases: dict[int, int]
    """Output index -> index into `inputs` whose memory it shares."""
    config: dict[str, Any]
    """The backend configuration without the body: limits, cost estimate, collective id ..."""
    side_effects: bool
    location: str = ""
    histogram: Counter[str] = field(default_factory=Counter[str])
    """How often each op occurs in the body, nested ones included."""

    @property
    def dynamic_bounds(self) -> int:
        """Number of grid bounds that are operands."""
        return sum(n == DYNAMIC for n in self.grid)

    @property
    def spaces(self) -> tuple[str, ...]:
        """Memory space of each input and output ref."""
        first = len(self.grid) + self.prefetch
        args = self.body.body.args[first : first + len(self.windows)]
        return tuple(self.body.types[a].space for a in args)


@dataclass(frozen=True, slots=True)
class Options:
    """How to execute."""

    poison: Literal["nan", "large", "small", "zero"] = "nan"
    check_bounds: bool = True
    """Raise `OutOfBounds`; else such loads read poison and such stores are dropped."""
    dma: Literal["wait", "start"] = "wait"
    """When a DMA moves its bytes: at the wait that completes it (the latest moment that the
    hardware may choose) or when it is started."""
    races: bool = True
    """Raise `Race`; else the effect of `dma` alone shows in the numbers."""
    f32_matmul: Literal["exact", "bf16"] = "exact"
    """Products of f32 matrices at default precision: in f32, or after rounding to bf16."""
    steps: int = 1 << 24
    """Most grid steps plus loop iterations of one run."""
    seconds: float = 600.0
    """Longest run, wall clock."""
    memory_bytes: int = 8 << 30
    """Most bytes of arrays that kernels' refs may occupy at once."""
    shuffle: int | None = None
    """A seed: positions along `parallel` grid axes run in random order, each with fresh scratch, as
    if every one had a core of its own. None runs the grid in order on one core."""
    track: bool = False
    """Note loads of scratch that nothing has written (`Launched.undefined`)."""
