"""The function `kernel` of an update: sizes, blocks, the call, and the way back."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Dim
from maxkernel.engineers.builtin.module import Module, Shapes
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import Output
from maxkernel.engineers.builtin.text import WIDTH, Names, call, compiler_params, doc, sequence
from maxkernel.engineers.builtin.updates.around import Around
from maxkernel.engineers.builtin.updates.body import Block, label
from maxkernel.engineers.builtin.updates.match import Update
from maxkernel.types import TunableSpace

TAKEN = tuple("rows cols units block together spec shape i".split())
"""Names that `kernel` uses itself."""
_SPEC = """
    def spec(*shape):
        return pl.BlockSpec(shape, lambda i: (i, *(0 for _ in shape[1:])))
"""


@dataclass(frozen=True)
class Frame:
    """What `kernel` is written from. `reads` and `results` are the body's arrays."""

    update: Update
    shapes: Shapes
    arguments: list[str]
    arrays: tuple[str, ...]
    reads: list[Block]
    results: list[Block]


def direct(update: Update, output: Output) -> bool:
    """Whether an output is a result of the kernel as it stands."""
    term = output.term
    if term not in update.results:
        return False
    return flat(output.dims) == update.places[term] + update.inner(term)


class _Writer:
    def __init__(self, frame: Frame, names: Names, module: Module) -> None:
        self.frame = frame
        self.update = frame.update
        self.names = names
        self.module = module
        self.shared: dict[Dim, str] = {}
        self.lines: list[str] = []

    def write(self, tunables: TunableSpace) -> str:
        """The source of `kernel`."""
        frame, update = self.frame, self.update
        defaults = [f"{name}={choices[0]}" for name, choices in tunables.items()]
        self._sizes()
        passed = self._passed()
        self.lines.append("block = pl.cdiv(min(block, units), together) * together")
        single = len(frame.results) == 1
        names = [b.ref.removesuffix("_ref") for b in frame.results]
        types = [self._type(b) for b in frame.results]
        outs = [self._spec(b.term) for b in frame.results]
        pieces = [
            "functools.partial(body, together=together)",
            "grid=(pl.cdiv(units, block),)",
            sequence([self._spec(b.term) for b in frame.reads], 8, "in_specs="),
            f"out_specs={outs[0]}" if single else sequence(outs, 8, "out_specs="),
            f"out_shape={types[0]}" if single else sequence(types, 8, "out_shape="),
            compiler_params(["parallel"]),
        ]
        run = call("pl.pallas_call", pieces, 4, f"{', '.join(names)} = ").removesuffix("    )")
        run += call(")", passed, 4)
        after, returned = self._returned(names)
        lines = [
            call("kernel", [*frame.arguments, "*", *defaults], 0, "def ", ":"),
            doc("Blocks of units; gates and the like are left to XLA.", 4)
            if any(b.term in update.around for b in frame.reads)
            else doc("Blocks of units, one after the other.", 4),
            *(f"    {line}" for line in self.lines),
            _SPEC.rstrip("\n"),
            "",
            run,
            *(f"    {line}" for line in after),
            _return(returned),
        ]
        return "\n".join(lines).replace("\n\n\n", "\n\n")

    def _sizes(self) -> None:
        update, anchor = self.update, self.frame.arrays[self.update.anchor.index]
        rows, cols = (self.frame.shapes.dim(d) for d in (update.rows, update.cols))
        dims = [d for d in update.anchor.dims if d]
        plain = dims[-2:] == [update.rows, update.cols] and all(update.anchor.dims[-2:])
        sizes = f"{anchor}.shape[-2:]" if plain else f"{rows}, {cols}"
        self.lines += [f"rows, cols = {sizes}", f"units = {anchor}.size // (rows * cols)"]
        for block in self.frame.reads:
            leading = update.places[block.term]
            if leading in ((), update.units) or leading in self.shared:
                continue
            self.shared[leading] = self.names.new("sharing")
            self.lines.append(f"{self.shared[leading]} = {self._share(leading)}")

    def _share(self, leading: Dim) -> str:
        """How many units share a row of arrays that have these axes of units."""
        update = self.update
        for block in self.frame.reads:
            term = block.term
            if update.program[term].op != "input" or term in update.around:
                continue
            if update.places[term] == leading:
                name = self.frame.arrays[update.program.input(term).index]
                sides = zip(("rows", "cols"), update.spans(term), strict=True)
                width = " * ".join(n for n, has in sides if has)
                return f"units * {width} // {name}.size"
        rest = update.units[len(leading) :]
        return " * ".join(self.frame.shapes.dim((axis,)) for axis in rest)

    def _passed(self) -> list[str]:
        """The arrays that the kernel is called with."""
        update, frame = self.update, self.frame
        mine = [b.term for b in frame.reads if b.term in update.around]
        around = Around.of(update, mine, (), frame.shapes, self.names, self.module)
        made = {term: around.array(term, label(update, term)) for term in mine}
        self.lines += around.statements()
        passed: list[str] = []
        for block in frame.reads:
            if block.term in made:
                passed.append(made[block.term])
                continue
            use = update.program.input(block.term)
            sides = zip(("rows", "cols"), update.spans(block.term), strict=True)
            width = ", ".join(n for n, has in sides if has)
            leading = update.places[block.term]
            first = ["-1"] if leading else [] if update.full(block.term) else ["1"]
            passed.append(f"{frame.arrays[use.index]}.reshape({', '.join([*first, width])})")
        return passed

    def _shape(self, term: int, block: str = "block") -> str:
        """The shape of a block, or of an array of `block` units."""
        leading, (rows, cols) = self.update.places[term], self.update.spans(term)
        if leading in self.shared:
            block = f"{block} // {self.shared[leading]}"
        first = [block] if leading else [] if rows and cols else ["1"]
        inner = [name for name, has in (("rows", rows), ("cols", cols)) if has] or ["1"]
        return ", ".join([*first, *inner])

    def _spec(self, term: int) -> str:
        shape = self._shape(term)
        if self.update.places[term]:
            return f"spec({shape})"
        return f"pl.BlockSpec(({shape}), lambda i: (0, 0))"

    def _type(self, block: Block) -> str:
        anchor = self.update.anchor
        dtype = f"jnp.{block.dtype}"
        if block.dtype == anchor.dtype:
            dtype = f"{self.frame.arrays[anchor.index]}.dtype"
        return f"jax.ShapeDtypeStruct(({self._shape(block.term, 'units')}), {dtype})"

    def _returned(self, names: list[str]) -> tuple[list[str], list[str]]:
        """(statements after the kernel, the outputs' expressions)."""
        update, shapes = self.update, self.frame.shapes
        known = dict(zip(update.results, names, strict=True))
        outputs = update.program.outputs
        rest = [o.term for o in outputs if not direct(update, o)]
        around = Around.of(update, rest, known, shapes, self.names, self.module)
        read = {*rest, *(a for t in update.after for a in update.program[t].args)}
        for term, name in known.items():
            if term in read:
                around.know(term, name)
        returned = [
            f"{known[o.term]}.reshape({shapes.shape(o.dims)})"
            if direct(update, o)
            else around.output(o)
            for o in outputs
        ]
        return around.statements(), returned


def _return(returned: list[str]) -> str:
    text = f"    return {', '.join(returned)}"
    return text if len(text) <= WIDTH else call("", returned, 4, "return ")


def kernel(frame: Frame, tunables: TunableSpace, names: Names, module: Module) -> str:
    """Source of `kernel`."""
    return _Writer(frame, names, module).write(tunables)
