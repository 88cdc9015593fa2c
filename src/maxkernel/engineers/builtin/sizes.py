"""Sizes of the arrays of an operator graph, in terms of the inputs' shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maxkernel.engineers.builtin.axes import Axis, AxisTable, Dim, Dims, Unsupported
from maxkernel.engineers.builtin.layouts import ELEMENTWISE, PASS_THROUGH
from maxkernel.types import Graph, Node


class Sizes:
    """Which dimensions are the same, found from how arrays are used together.

    An outer part of a dimension that a reshape splits keeps its size at other input sizes; so do
    dimensions that come from no input.
    """

    def __init__(
        self,
        graph: Graph,
        arrays: Sequence[str],
        constants: Mapping[str, Any],
        around: tuple[AxisTable, dict[int, Dims]] | None = None,
    ) -> None:
        """`around`: for a loop's body, the axes of the program and the dimensions of its inputs."""
        self.graph = graph
        self.table, self.dims = around or (AxisTable(), {})
        self._arrays = dict(zip(graph.inputs, arrays, strict=True))
        self._constants = {value: name for name, value in constants.items()}
        self._cut: list[tuple[int, int]] = []
        for value in graph.inputs:
            self._of(value)
        for node in graph.nodes:
            of = [self._of(v) for v in node.inputs]
            for value, dims in zip(node.outputs, self._results(node, of), strict=True):
                self.dims[value] = dims
        pieces = [self.table.resolve(self.dims[value][axis]) for value, axis in self._cut]
        self._kept_size = {p[0] for p in pieces if len(p) == 1 and self._whole(p) is None}

    def integer(self, value: int) -> str:
        """A whole number of the program: by name where it is an argument of the call."""
        return self._constants.get(value, str(value))

    def text(self, dim: Dim) -> str:
        """The size of a dimension as an expression."""
        dim = self.table.resolve(dim)
        if not dim:
            return "1"
        whole = self._whole(dim)
        if whole is not None:
            return whole
        if len(dim) > 1:
            return " * ".join(self.text((axis,)) for axis in dim)
        return next(self._part(axis) for axis in dim)

    def _whole(self, dim: Dim) -> str | None:
        for value, name in self._arrays.items():
            for i, other in enumerate(self.dims[value]):
                if self.table.resolve(other) == dim:
                    return f"{name}.shape[{i}]"
        return None

    def _part(self, axis: Axis) -> str:
        """The innermost part of a split dimension follows from the whole; others are constant.

        It is the other way round where slices cut the innermost part, for their bounds are
        numbers, or where it is reduced: runs of columns keep their length.
        """
        splits = [self.table.resolve(d) for v in self._arrays for d in self.dims[v]]
        splits = [parts for parts in splits if len(parts) == 2]
        heads = {parts[0] for parts in splits if parts[1] in self._kept_size}
        for parts in splits:
            if axis == parts[0] and parts[1] in self._kept_size:
                return f"{self._whole(parts)} // {self.table.size(parts[1])}"
        for value in self._arrays:
            for other in self.dims[value]:
                parts = self.table.resolve(other)
                if len(parts) > 1 and parts[-1] == axis and not heads.intersection(parts):
                    outer = parts[:-1]
                    size = self._whole(outer) or str(self.table.extent(outer))
                    return f"{self._whole(parts)} // {size}"
        return self.integer(self.table.size(axis))

    def _of(self, value: int) -> Dims:
        if value not in self.dims:
            shape = self.graph.values[value].shape
            self.dims[value] = tuple(self.table.fresh(n) for n in shape)
        return self.dims[value]

    def _fresh(self, value: int) -> Dims:
        return tuple(self.table.fresh(n) for n in self.graph.values[value].shape)

    def _results(self, node: Node, of: list[Dims]) -> list[Dims]:
        out = node.outputs[0]
        shape = self.graph.values[out].shape
        if node.op in ELEMENTWISE:
            return [self._together(of, shape)]
        if node.op in PASS_THROUGH:
            return of
        if node.op == "sort":
            return [self._together(of, shape)] * len(node.outputs)
        if node.op.startswith("reduce_"):
            gone = {int(i) for i in node.params.get("axes", ())}
            self._cut += [(node.inputs[0], i) for i in gone]
            return [tuple(d for i, d in enumerate(of[0]) if i not in gone)]
        if node.op == "broadcast_in_dim":
            places = [int(i) for i in node.params["broadcast_dimensions"]]
            kept = {j: of[0][i] for i, j in enumerate(places) if of[0][i]}
            return [tuple(kept.get(j) or self.table.fresh(n) for j, n in enumerate(shape))]
        if node.op in ("reshape", "squeeze", "expand_dims"):
            return [self._regrouped(of[0], out)]
        if node.op == "transpose":
            return [tuple(of[0][int(i)] for i in node.params["permutation"])]
        if node.op == "dot_general":
            return [self._dot(node, of)]
        if node.op.startswith("ragged_dot"):
            self.table.unify(of[1][0], of[2][0])
            return [(of[0][0], of[1][2])]
        if node.op == "top_k":
            found = list(self._fresh(out))
            axis = int(node.params.get("axis", len(found) - 1))
            dims = tuple(found[i] if i == axis else d for i, d in enumerate(of[0]))
            return [dims, dims]
        if node.op == "gather":
            return [self._gathered(node, of, shape)]
        if node.op in ("cumsum", "cumprod", "cummax"):
            return [of[0]]
        if node.op in ("slice", "split", "pad", "rev"):
            self._cut += [
                (node.inputs[0], i) for i, n in enumerate(shape) if not self._fills(of[0][i], n)
            ]
            return [self._kept(of[0], v) for v in node.outputs]
        if node.op == "conv_general_dilated":
            numbers = node.params["dimension_numbers"]
            lhs, rhs, spec = (numbers[f"{side}_spec"] for side in ("lhs", "rhs", "out"))
            ends = {int(spec[0]): of[0][int(lhs[0])], int(spec[1]): of[1][int(rhs[0])]}
            return [tuple(ends.get(i) or self.table.fresh(n) for i, n in enumerate(shape))]
        if node.op == "stack":
            axis = int(node.params["axis"])
            whole = self._together(of, (*shape[:axis], *shape[axis + 1 :]))
            return [(*whole[:axis], self.table.fresh(shape[axis]), *whole[axis:])]
        if node.op == "scan":
            return self._scan(node, of)
        if node.op == "concatenate":
            along = int(node.params["dimension"])
            apart = [(*dims[:along], (), *dims[along + 1 :]) for dims in of]
            whole = self._together(apart, shape)
            return [(*whole[:along], self.table.fresh(shape[along]), *whole[along + 1 :])]
        return [self._fresh(v) for v in node.outputs]

    def _scan(self, node: Node, of: list[Dims]) -> list[Dims]:
        """A loop's body ties dimensions of its operands, and of its results, together."""
        body = node.bodies["jaxpr"]
        fixed, carried = int(node.params["num_consts"]), int(node.params["num_carry"])
        stacked = fixed + carried
        given = [dims[1:] if i >= stacked else dims for i, dims in enumerate(of)]
        known = dict(zip(body.inputs, given, strict=True))
        inner = Sizes(body, [""] * len(known), {}, (self.table, known))
        steps = of[stacked][0] if len(of) > stacked else self.table.fresh(node.params["length"])
        for dims, result in zip(of[fixed:stacked], body.outputs, strict=False):
            for one, two in zip(dims, inner.dims[result], strict=True):
                if one and two:
                    self.table.unify(one, two)
        results = [(steps, *inner.dims[result]) for result in body.outputs[carried:]]
        return [*of[fixed:stacked], *results]

    def _kept(self, dims: Dims, out: int) -> Dims:
        """Dimensions of an array cut or padded to others: those of the same size stay."""
        shape = self.graph.values[out].shape
        same = zip(shape, dims, strict=True)
        return tuple(d if self._fills(d, n) else self.table.fresh(n) for n, d in same)

    def _fills(self, dim: Dim, size: int) -> bool:
        return self.table.extent(dim) == size

    def _together(self, of: list[Dims], shape: Sequence[int]) -> Dims:
        full: list[Dim] = [() for _ in shape]
        for dims in of:
            for i, dim in enumerate(dims if len(dims) == len(shape) else ()):
                if full[i] and dim:
                    self.table.unify(full[i], dim)
                full[i] = full[i] or dim
        return tuple(full)

    def _regrouped(self, dims: Dims, out: int) -> Dims:
        try:
            return self.table.regroup(dims, self.graph.values[out].shape)
        except Unsupported:
            return self._fresh(out)

    def _gathered(self, node: Node, of: list[Dims], shape: Sequence[int]) -> Dims:
        numbers: dict[str, Any] = node.params["dimension_numbers"]
        offsets = [int(i) for i in numbers["offset_dims"]]
        gone = {int(i) for i in numbers["collapsed_slice_dims"]}
        gone |= {int(i) for i in numbers["operand_batching_dims"]}
        record = [d for i, d in enumerate(of[0]) if i not in gone]
        sizes = [int(n) for i, n in enumerate(node.params["slice_sizes"]) if i not in gone]
        own = dict(zip(offsets, zip(record, sizes, strict=True), strict=True))
        index = iter(of[1][:-1])
        found: list[Dim] = []
        for i, n in enumerate(shape):
            if i in own:
                dim, size = own[i]
                found.append(dim if self.table.extent(dim) == size else self.table.fresh(size))
            else:
                found.append(next(index))
            assert self.table.extent(found[-1]) == n
        return tuple(found)

    def _dot(self, node: Node, of: list[Dims]) -> Dims:
        (left, right), (left_batch, right_batch) = node.params["dimension_numbers"]
        for i, j in (*zip(left, right, strict=True), *zip(left_batch, right_batch, strict=True)):
            self.table.unify(of[0][int(i)], of[1][int(j)])
        free = [d for i, d in enumerate(of[0]) if i not in (*left, *left_batch)]
        free += [d for i, d in enumerate(of[1]) if i not in (*right, *right_batch)]
        return (*(of[0][int(i)] for i in left_batch), *free)
