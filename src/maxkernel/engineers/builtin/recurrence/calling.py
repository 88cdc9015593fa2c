"""The `pallas_call` of a recurrence, and its results as the program knows them."""

from __future__ import annotations

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.lines import fitted
from maxkernel.engineers.builtin.recurrence.around import CHUNK, Around
from maxkernel.engineers.builtin.recurrence.arrays import Array
from maxkernel.engineers.builtin.recurrence.body import Body
from maxkernel.engineers.builtin.recurrence.match import Recurrence
from maxkernel.engineers.builtin.text import Names, call, compiler_params, sequence


class Call:
    """Adds the statements to those around the loop; its results are known there afterwards."""

    def __init__(
        self,
        loop: Recurrence,
        around: Around,
        body: Body,
        arrays: dict[int, Array],
        results: list[Array],
        names: Names,
    ) -> None:
        self.loop, self.around, self.body, self.names = loop, around, body, names
        self.arrays = {i: arrays[i] for i in body.operands}
        self.results = results
        count = len(loop.chosen) - 1
        self.batches = ["b"] if count == 1 else [f"b{k}" for k in range(count)]
        self.sizes = [names.new("batch" if count == 1 else f"batch_{k}") for k in range(count)]
        self.passed: dict[int, str] = {}
        """Names of the operands as the kernel gets them."""

    def write(self) -> None:
        """The statements."""
        lead = self._lead()
        for i in sorted(self.arrays, key=lambda i: i != lead):
            name = self._ordered(i)
            if i == lead:
                self._grid(self.arrays[i], name)
            self.passed[i] = self._grouped(self.arrays[i], name, self.body.names[i])
        outs = [
            self.names.new("last" if i < self.loop.carried else "out")
            for i in range(len(self.results))
        ]
        self._pallas_call(outs)
        for array, name in zip(self.results, outs, strict=True):
            if array.rank < 2:
                shape = [f"*{name}.shape[:{array.leading}]", "total"]
                shape += [f"{name}.shape[-1]"] if array.rank else []
                self._line(f"{name} = {name}.reshape({', '.join(shape)})")
            back = [array.order.index(d) for d in range(len(array.order))]
            self.around.moved[array.source] = name, back

    def _line(self, text: str) -> None:
        self.around.lines.append(fitted(text, 4))

    def _lead(self) -> int:
        """An operand that shows the number of steps, batches and heads."""
        for i, array in self.arrays.items():
            stacked = array.steps or array.along is not None
            if stacked and array.is_matrix and len(array.outer) == len(self.batches):
                return i
        raise Unsupported("no matrix of every step has all of the loop's batches and heads")

    def _grid(self, lead: Array, name: str) -> None:
        sizes = [*(["count"] if lead.steps else []), *self.sizes, "total"]
        self._line(f"{', '.join(sizes)} = {name}.shape[:{len(sizes)}]")
        if lead.along is not None:
            self._line(f"count = {name}.shape[{lead.along - lead.rank}] // {CHUNK}")
        self._line("heads = math.gcd(heads, total)")

    def _ordered(self, i: int) -> str:
        """The name of an operand with its dimensions in order."""
        code = self.around.transposed(self.arrays[i].source, self.arrays[i].order)
        if code.text.isidentifier():
            return code.text
        kind = "chunks" if self.arrays[i].steps else "heads"
        name = self.names.new(f"{self.body.names[i]}_{kind}")
        self._line(f"{name} = {code.text}")
        return name

    def _grouped(self, array: Array, given: str, hint: str) -> str:
        """Vectors of heads in groups; vectors that all heads share as rows."""
        if array.rank == 2:
            return given
        name = self.names.new(f"{hint}_rows")
        if array.per_head:
            every = f"*{given}.shape[:{array.leading}]"
            first = {0: [], 1: [f"{given}.shape[0]"]}.get(array.leading, [every])
            last = f"{given}.shape[-1]" if array.rank else "1"
            shape = ", ".join([*first, "-1", "heads", last])
            self._line(f"{name} = {given}.reshape({shape})")
        else:
            self._line(f"{name} = {given}[..., None, {':' if array.rank else 'None'}]")
        return name

    def _pallas_call(self, outs: list[str]) -> None:
        in_specs: list[str] = []
        for i, array in self.arrays.items():
            name = self.passed[i]
            sizes = [array.extent(name, d) for d in array.tail]
            if array.along is None:
                first = array.leading + array.per_head * (1 if array.rank == 2 else 2)
                sizes = [f"*{name}.shape[{first}:]"]
            elif array.rank == 1 and not array.per_head:
                sizes = ["1", *sizes]
            in_specs.append(array.spec(self.batches, sizes))
        out_specs, shapes = list[str](), list[str]()
        for array in self.results:
            seen = [self._extent(array.value, d) for d in array.tail] or ["1"]
            out_specs.append(array.spec(self.batches, seen))
            whole = [*(["count"] if array.steps else []), *(self.sizes[k] for k in array.outer)]
            whole += ["total"] if array.is_matrix else ["total // heads", "heads"]
            if array.along is not None:
                seen[array.along] = f"count * {CHUNK}"
            dtype = self.loop.one.values[array.value].dtype
            parts = [f"({', '.join([*whole, *seen])})", f"jnp.{dtype}"]
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
        text += f"({', '.join(self.passed.get(i, '') for i in self.body.operands)})"
        self.around.lines.append("\n".join(line[4:] for line in text.split("\n")))

    def _extent(self, value: int, dimension: int) -> str:
        """The size of a dimension of a result, by those of the operands."""
        of = self.loop.of(value, dimension)
        for i, array in self.arrays.items():
            for d in array.tail:
                if self.loop.of(array.value, d) == of:
                    return array.extent(self.passed[i], d)
        return str(self.loop.one.values[value].shape[dimension])
