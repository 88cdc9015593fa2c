"""The `pallas_call` of a recurrence: operands with heads before what a head sees, and results in
the order of the loop's again."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.recurrence.around import Around
from maxkernel.engineers.builtin.recurrence.body import Body
from maxkernel.engineers.builtin.recurrence.lines import fitted
from maxkernel.engineers.builtin.recurrence.match import Recurrence
from maxkernel.engineers.builtin.text import Names, call, compiler_params, sequence


@dataclass(frozen=True)
class _Array:
    """An operand or result: steps and batches first, then heads, then what a head sees."""

    value: int
    """Of the loop's body."""
    stacked: bool
    per_head: bool
    outer: tuple[int, ...]
    """Which batches it has."""
    order: tuple[int, ...]
    """Where its dimensions lie in the loop's operand or result."""
    rank: int
    """Of what a head sees."""

    @property
    def leading(self) -> int:
        """Dimensions before the heads."""
        return self.stacked + len(self.outer)

    @property
    def is_matrix(self) -> bool:
        """Whether each head sees a matrix of its own."""
        return self.per_head and self.rank == 2

    def spec(self, batches: list[str], sizes: str) -> str:
        """Its BlockSpec at indentation 12; `sizes`: those of the last dimensions."""
        index = [*(["n"] if self.stacked else []), *(batches[k] for k in self.outer)]
        block = ["None"] * self.leading
        if self.per_head:
            block += ["heads"] if self.is_matrix else ["None", "heads"]
            index.append("g")
        names, places = ", ".join([*batches, "g", "n"]), ", ".join([*index, "0", "0"])
        shape = ", ".join([*block, sizes])
        return call("pl.BlockSpec", [f"({shape})", f"lambda {names}: ({places})"], 12).lstrip()


def _array(loop: Recurrence, value: int, stacked: bool) -> _Array:
    places = loop.places(value)
    first = [d for d in places if d is not None]
    kept = [d for d in range(len(loop.body.values[value].shape)) if d not in first]
    order = (*([0] if stacked else []), *(d + stacked for d in (*first, *kept)))
    outer = tuple(k for k, d in enumerate(places[:-1]) if d is not None)
    return _Array(value, stacked, places[-1] is not None, outer, order, len(kept))


def call_kernel(loop: Recurrence, around: Around, body: Body, names: Names) -> None:
    """Adds the statements to those around; the loop's results are known there afterwards."""
    _Call(loop, around, body, names).write()


class _Call:
    def __init__(self, loop: Recurrence, around: Around, body: Body, names: Names) -> None:
        self.loop, self.around, self.body, self.names = loop, around, body, names
        count = len(loop.chosen) - 1
        self.batches = ["b"] if count == 1 else [f"b{k}" for k in range(count)]
        self.sizes = [names.new("batch" if count == 1 else f"batch_{k}") for k in range(count)]
        self.arrays = {
            i: _array(loop, loop.one.inputs[i], loop.is_stacked(i)) for i in body.operands
        }
        self.passed: dict[int, str] = {}
        """Names of the operands as the kernel gets them."""

    def write(self) -> None:
        """The statements."""
        lead = self._lead()
        for i in sorted(self.arrays, key=lambda i: i != lead):
            name = self._ordered(i)
            if i == lead:
                sizes = ", ".join(["count", *self.sizes, "total"])
                self._line(f"{sizes} = {name}.shape[:{2 + len(self.sizes)}]")
                self._line("heads = math.gcd(heads, total)")
            self.passed[i] = self._grouped(self.arrays[i], name, self.body.names[i])
        results = [
            _array(self.loop, v, i >= self.loop.carried)
            for i, v in enumerate(self.loop.one.outputs)
        ]
        outs = [self.names.new("out" if r.stacked else "last") for r in results]
        self._pallas_call(results, outs)
        for result, name, value in zip(results, outs, self.loop.loop.outputs, strict=True):
            self._returned(result, name, value)

    def _line(self, text: str) -> None:
        self.around.lines.append(fitted(text, 4))

    def _lead(self) -> int:
        """An operand that shows the number of steps, batches and heads."""
        for i, array in self.arrays.items():
            if array.stacked and array.is_matrix and len(array.outer) == len(self.batches):
                return i
        raise Unsupported("no matrix of every step has all of the loop's batches and heads")

    def _ordered(self, i: int) -> str:
        """The name of an operand with its dimensions in order."""
        value = self.loop.loop.inputs[i]
        code = self.around.transposed(value, self.arrays[i].order)
        if code.text.isidentifier():
            return code.text
        kind = "chunks" if self.loop.is_stacked(i) else "heads"
        name = self.names.new(f"{self.body.names[i]}_{kind}")
        self._line(f"{name} = {code.text}")
        return name

    def _grouped(self, array: _Array, given: str, hint: str) -> str:
        """Vectors of heads in groups; vectors that all heads share as rows."""
        if array.rank == 2:
            return given
        name = self.names.new(f"{hint}_rows")
        if array.per_head:
            first = (
                f"{given}.shape[0]" if array.leading == 1 else f"*{given}.shape[:{array.leading}]"
            )
            last = f"{given}.shape[-1]" if array.rank else "1"
            self._line(f"{name} = {given}.reshape({first}, -1, heads, {last})")
        else:
            self._line(f"{name} = {given}[..., None, {':' if array.rank else 'None'}]")
        return name

    def _pallas_call(self, results: list[_Array], outs: list[str]) -> None:
        in_specs: list[str] = []
        for i in self.body.operands:
            array = self.arrays[i]
            first = array.leading + (array.per_head if array.rank == 2 else 2 * array.per_head)
            in_specs.append(array.spec(self.batches, f"*{self.passed[i]}.shape[{first}:]"))
        out_specs, shapes = list[str](), list[str]()
        for result in results:
            seen = self._seen(result)
            out_specs.append(result.spec(self.batches, seen))
            whole = [*(["count"] if result.stacked else []), *(self.sizes[k] for k in result.outer)]
            whole += ["total"] if result.is_matrix else ["total // heads", "heads"]
            dtype = self.loop.one.values[result.value].dtype
            parts = [f"({', '.join([*whole, seen])})", f"jnp.{dtype}"]
            shapes.append(call("jax.ShapeDtypeStruct", parts, 12).lstrip())
        parts = [
            "body",
            f"grid=({', '.join([*self.sizes, 'total // heads', 'count'])})",
            sequence(in_specs, 8, "in_specs="),
            sequence(out_specs, 8, "out_specs="),
            sequence(shapes, 8, "out_shape="),
            compiler_params([*["parallel"] * (len(self.batches) + 1), "arbitrary"]),
        ]
        text = call("pl.pallas_call", parts, 4, f"{', '.join(outs)} = ")
        text += f"({', '.join(self.passed[i] for i in self.body.operands)})"
        self.around.lines.append("\n".join(line[4:] for line in text.split("\n")))

    def _seen(self, result: _Array) -> str:
        """Sizes of what a head sees of a result, by those of the operands."""
        sizes = [self._extent(result.value, d) for d in range(result.rank)]
        return ", ".join(sizes or ["1"])

    def _extent(self, value: int, dimension: int) -> str:
        of = self.loop.of(value, dimension)
        for i, array in self.arrays.items():
            for d in range(array.rank):
                if self.loop.of(array.value, d) == of:
                    return f"{self.passed[i]}.shape[{d - array.rank}]"
        return str(self.loop.one.values[value].shape[dimension])

    def _returned(self, result: _Array, name: str, value: int) -> None:
        """Makes a result known as the loop's."""
        if not result.is_matrix:
            last = f", {name}.shape[-1]" if result.rank else ""
            self._line(f"{name} = {name}.reshape(*{name}.shape[:{result.leading}], total{last})")
        back = [result.order.index(d) for d in range(len(result.order))]
        self.around.moved[value] = name, back
