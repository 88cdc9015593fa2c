"""Named axes: what dimensions of different arrays are the same index.

Every dimension of every array is an ordered list of axes, major first (empty for size 1). Element-
wise operations tie dimensions together; reshapes split and merge them. Afterwards layouts no
longer matter: an expression depends on a set of axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Axis = int
Dim = tuple[Axis, ...]
"""One array dimension: its axes, major first; its size is the product of theirs."""
Dims = tuple[Dim, ...]


class Unsupported(Exception):
    """This graph is outside what the built-in engineer understands; the text says why."""


class AxisTable:
    """Union-find over axes; an axis can be split into an ordered list of finer ones."""

    def __init__(self) -> None:
        self._size: list[int] = []
        self._parent: list[Axis] = []
        self._parts: dict[Axis, Dim] = {}

    def fresh(self, size: int) -> Dim:
        """A new axis of `size` elements as a dimension; no axis for size 1."""
        if size == 1:
            return ()
        self._size.append(size)
        self._parent.append(len(self._parent))
        return (len(self._parent) - 1,)

    def size(self, axis: Axis) -> int:
        """Number of elements along one axis."""
        return self._size[axis]

    def extent(self, axes: Sequence[Axis]) -> int:
        """Number of elements along several axes together."""
        return math.prod(self._size[a] for a in axes)

    def resolve(self, dim: Sequence[Axis]) -> Dim:
        """The finest representatives of a dimension's axes."""
        out: list[Axis] = []
        for axis in dim:
            root = self._root(axis)
            parts = self._parts.get(root)
            if parts is None:
                out.append(root)
            else:
                out.extend(self.resolve(parts))
        return tuple(out)

    def unify(self, left: Sequence[Axis], right: Sequence[Axis]) -> None:
        """Tie two dimensions of equal size together; raises Unsupported when no split fits."""
        while True:
            a, b = list(self.resolve(left)), list(self.resolve(right))
            while a and b and a[0] == b[0]:
                a, b = a[1:], b[1:]
            if not a or not b:
                if self.extent(a) != self.extent(b):
                    raise Unsupported("two dimensions that are used together differ in size")
                return
            self._match(a[0], b[0])

    def regroup(self, dims: Sequence[Sequence[Axis]], shape: Sequence[int]) -> Dims:
        """The dimensions of an array with these `dims` after a reshape to `shape`."""
        queue = [axis for dim in dims for axis in self.resolve(dim)]
        out: list[Dim] = []
        for size in shape:
            have: list[Axis] = []
            while self.extent(have) < size:
                axis = queue.pop(0)
                need = size // self.extent(have)
                if self.size(axis) > need:
                    axis, rest = self._split(axis, need)
                    queue.insert(0, rest)
                have.append(axis)
            if self.extent(have) != size:
                raise Unsupported(f"a reshape to {tuple(shape)} cuts across dimensions")
            out.append(tuple(have))
        return tuple(out)

    def _root(self, axis: Axis) -> Axis:
        while self._parent[axis] != axis:
            axis = self._parent[axis]
        return axis

    def _split(self, axis: Axis, major: int) -> tuple[Axis, Axis]:
        size = self._size[axis]
        if size % major:
            raise Unsupported(f"a reshape cuts a dimension of {size} into pieces of {major}")
        parts = (*self.fresh(major), *self.fresh(size // major))
        self._parts[axis] = parts
        return parts[0], parts[1]

    def _match(self, a: Axis, b: Axis) -> None:
        if self.size(a) == self.size(b):
            self._parent[b] = a
        elif self.size(a) > self.size(b):
            self._split(a, self.size(b))
        else:
            self._split(b, self.size(a))
