"""From an operator graph to a program of terms over named axes."""

from __future__ import annotations

from typing import Any

from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.build import Builder
from maxkernel.engineers.builtin.convolutions import convolution
from maxkernel.engineers.builtin.idioms import wrapped_index
from maxkernel.engineers.builtin.layouts import (
    ELEMENTWISE,
    PASS_THROUGH,
    REDUCE,
    RUNNING,
    Instance,
    Layouts,
    dot_numbers,
    joined_dim,
    lay_out,
    reduced_dims,
)
from maxkernel.engineers.builtin.relative import COMPARISONS, relative_bound
from maxkernel.engineers.builtin.terms import Dot, Output, Program, Term
from maxkernel.types import Node, TaskInfo

_RENAME = {"add_any": "add", "select_n": "where"}
_BITS = frozenset({"and", "or", "xor", "not"})
_NARROW_INT = frozenset({"int8", "int16", "int32", "uint8", "uint16"})


def canonicalise(info: TaskInfo) -> Program:
    """The task's graph as a program; raises Unsupported with the reason."""
    layouts = lay_out(info.graph)
    lowering = _Lowering(layouts, info)
    return lowering.run()


def kind_of_dtype(dtype: str) -> str:
    """`float`, `int` or `bool`; raises Unsupported for what kernels do not compute with."""
    if dtype == "bool":
        return "bool"
    if dtype in _NARROW_INT:
        return "int"
    if dtype in ("float32", "bfloat16", "float16") or dtype.startswith("float8"):
        return "float"
    raise Unsupported(f"values of dtype {dtype}")


class _Lowering:
    def __init__(self, layouts: Layouts, info: TaskInfo) -> None:
        self.layouts = layouts
        self.graph = layouts.graph
        self.program = Program(
            names=_names(info),
            shapes=tuple(spec.shape for spec in info.inputs),
            dtypes=tuple(spec.dtype for spec in info.inputs),
        )
        self.build = Builder(self.program)
        self.check = _check_extents(layouts, info)
        self.terms: list[int] = []

    def run(self) -> Program:
        for instance in self.layouts.instances:
            for dim in instance.dims:
                for axis in self.dim(dim):
                    self.program.sizes[axis] = self.layouts.table.size(axis)
        for instance in self.layouts.instances:
            self.terms.append(self._lower(instance))
        outputs: list[Output] = []
        for index in self.layouts.outputs:
            instance = self.layouts.instances[index]
            value = self.graph.values[instance.value]
            dims = tuple(self.dim(d) for d in instance.dims)
            outputs.append(Output(self.terms[index], dims, value.shape, value.dtype))
        self.program.outputs = tuple(outputs)
        return self.program

    def dim(self, dim: Dim) -> Dim:
        return self.layouts.table.resolve(dim)

    def dtype(self, value: int) -> str:
        return self.graph.values[value].dtype

    def _lower(self, instance: Instance) -> int:
        value = self.graph.values[instance.value]
        node, args = instance.node, tuple(self.terms[a] for a in instance.args)
        if node is None:
            return self._source(instance)
        if node.op in ("convert_element_type", *PASS_THROUGH):
            return self._convert(args[node.outputs.index(instance.value)], value.dtype)
        if node.op.startswith("shift_"):
            return self._shift(node, args)
        if node.op in ELEMENTWISE:
            return self._elementwise(node.op, args, node.params)
        if node.op in REDUCE:
            operand = self.layouts.instances[instance.args[0]].dims
            over = tuple(a for i in reduced_dims(node) for a in self.dim(operand[i]))
            return self.build.reduce(REDUCE[node.op], args[0], over)
        if node.op in RUNNING:
            dim = self.layouts.instances[instance.args[0]].dims[int(node.params["axis"])]
            over, reverse = self.dim(dim), bool(node.params["reverse"])
            return self.build.running(RUNNING[node.op], args[0], over, reverse)
        if node.op == "dot_general":
            return self._dot(instance, args)
        if node.op == "conv_general_dilated":
            return self._convolution(instance, args)
        if node.op in ("concatenate", "stack"):
            return self._join(instance, args)
        if node.op == "gather":
            return self._pick(instance, args)
        if node.op == "iota":
            axes = self.dim(instance.dims[int(node.params["dimension"])])
            kind = kind_of_dtype(value.dtype)
            iota = self.build.leaf("iota", "int", axes, over=axes)
            return self.build.apply("to_float", (iota,)) if kind == "float" else iota
        return args[0]

    def _source(self, instance: Instance) -> int:
        value = self.graph.values[instance.value]
        kind = kind_of_dtype(value.dtype)
        if value.literal is not None:
            return self.build.literal(value.literal, kind)
        if instance.value not in self.graph.inputs:
            raise Unsupported(f"an array constant of shape {value.shape} in the reference")
        dims = tuple(self.dim(d) for d in instance.dims)
        axes = {a for d in dims for a in d}
        index = self.graph.inputs.index(instance.value)
        return self.build.leaf("input", kind, axes, index=index, dims=dims)

    def _convert(self, arg: int, dtype: str) -> int:
        """Float formats are one kind; float8 and integer formats are deliberate."""
        to, kind = kind_of_dtype(dtype), self.program[arg].kind
        literal = self.program.literal(arg)
        if literal is not None:
            return self.build.literal(literal, to)
        if to == kind and not dtype.startswith("float8"):
            return arg
        if to == "float" and not dtype.startswith("float8"):
            return self.build.apply("to_float", (arg,))
        if to == "bool":
            return self.build.raw("ne", (arg, self.build.literal(0, kind)))
        return self.build.raw("convert", (arg,), kind=to, dtype=dtype)

    def _shift(self, node: Node, args: tuple[int, ...]) -> int:
        """Kernels shift int32: bits move as in the operand's own type where that is as wide, or has
        no sign and loses none."""
        dtype = self.dtype(node.inputs[0])
        own = dtype == "int32" and node.op != "shift_right_logical"
        if not own and not (dtype in ("uint8", "uint16") and node.op == "shift_right_logical"):
            raise Unsupported(f"`{node.op}` of {dtype}")
        return self.build.raw("shl" if node.op == "shift_left" else "shr", args)

    def _elementwise(self, op: str, args: tuple[int, ...], params: dict[str, Any]) -> int:
        if op == "clamp":
            low, value, high = args
            return self.build.apply("min", (self.build.apply("max", (value, low)), high))
        if op == "select_n":
            if len(args) != 3 or self.program[args[0]].kind != "bool":
                raise Unsupported("a selection among more than two cases")
            return self.build.apply("where", (args[0], args[2], args[1]))
        if op == "round" and not _nearest_even(params):
            raise Unsupported("rounding half away from zero")
        if op in _BITS and any(self.program[a].kind == "int" for a in args):
            return self.build.raw(op, args, kind="int")
        if op in COMPARISONS:
            args = relative_bound(self.build, args, self.check)
        attrs = {"y": params["y"]} if op == "integer_pow" else {}
        return self.build.apply(_RENAME.get(op, op), args, **attrs)

    def _pick(self, instance: Instance, args: tuple[int, ...]) -> int:
        """One element per row: the sum over columns of x where column == index."""
        build, operand = self.build, self.layouts.instances[instance.args[0]]
        over = self.dim(operand.dims[-1])
        value, index = args[0], args[1]
        plain = wrapped_index(build, index, self.program.extent(over))
        if plain is not None:
            size = build.leaf("size", "int", (), over=over)
            negative = build.apply("lt", (plain, build.literal(0, "int")))
            index = build.apply("where", (negative, build.apply("add", (plain, size)), plain))
        column = build.leaf("iota", "int", over, over=over)
        hit = build.apply("eq", (column, index))
        zero = build.literal(0, self.program[value].kind)
        return build.reduce(
            "sum", build.raw("where", (hit, value, zero), kind=self.program[value].kind), over
        )

    def _dot(self, instance: Instance, args: tuple[int, ...]) -> int:
        node = instance.node
        assert node is not None
        lhs, rhs = (
            tuple(self.dim(d) for d in self.layouts.instances[a].dims) for a in instance.args
        )
        out = tuple(self.dim(d) for d in instance.dims)
        lhs_c, rhs_c, lhs_b, rhs_b = dot_numbers(node)
        lhs_f = [i for i in range(len(lhs)) if i not in (*lhs_c, *lhs_b)]
        rhs_f = [i for i in range(len(rhs)) if i not in (*rhs_c, *rhs_b)]
        batch, free = out[: len(lhs_b)], out[len(lhs_b) :]
        dot = Dot(
            lhs_batch=tuple(zip(batch, (lhs[i] for i in lhs_b), strict=True)),
            rhs_batch=tuple(zip(batch, (rhs[i] for i in rhs_b), strict=True)),
            lhs_free=tuple(zip(free[: len(lhs_f)], (lhs[i] for i in lhs_f), strict=True)),
            rhs_free=tuple(zip(free[len(lhs_f) :], (rhs[i] for i in rhs_f), strict=True)),
            contract=tuple((lhs[i], rhs[j]) for i, j in zip(lhs_c, rhs_c, strict=True)),
            lhs_dtype=self.dtype(node.inputs[0]),
            rhs_dtype=self.dtype(node.inputs[1]),
            dtype=self.dtype(node.outputs[0]),
            precision=_precision(node.params.get("precision")),
        )
        for made, read in (*dot.lhs_batch, *dot.lhs_free, *dot.rhs_free):
            if len(made) == len(read) == 1 and read[0] in self.check:
                self.check[made[0]] = self.check[read[0]]
        axes = frozenset[Axis](a for d in out for a in d)
        return self.build.term(Term("dot", args, axes, kind_of_dtype(dot.dtype), (("dot", dot),)))

    def _join(self, instance: Instance, args: tuple[int, ...]) -> int:
        assert instance.node is not None
        along, width = joined_dim(instance.node)
        over = self.dim(instance.dims[along])
        lies = [self.layouts.instances[a].dims[along : along + width] for a in instance.args]
        parts = tuple(self.dim(dims[0]) if dims else () for dims in lies)
        axes = frozenset(over).union(
            *(self.program[a].axes - set(p) for a, p in zip(args, parts, strict=True))
        )
        kind = self.program[args[0]].kind
        return self.build.term(Term("join", args, axes, kind, (("over", over), ("parts", parts))))

    def _convolution(self, instance: Instance, args: tuple[int, ...]) -> int:
        node = instance.node
        assert node is not None
        dims = tuple(self.dim(d) for d in instance.dims)
        conv = convolution(node.params, dims, [self.dtype(i) for i in node.inputs])
        axes = frozenset[Axis](a for d in dims for a in d)
        kind = kind_of_dtype(self.dtype(node.outputs[0]))
        return self.build.term(Term("conv", args, axes, kind, (("conv", conv),)))


def _check_extents(layouts: Layouts, info: TaskInfo) -> dict[Axis, int]:
    """Extents at check size of the axes that are whole dimensions of inputs."""
    shapes = {
        v: spec.shape for v, spec in zip(layouts.graph.inputs, info.check_inputs, strict=False)
    }
    found: dict[Axis, int] = {}
    for instance in layouts.instances:
        for dim, size in zip(instance.dims, shapes.get(instance.value, ()), strict=False):
            axes = layouts.table.resolve(dim)
            if len(axes) == 1:
                found[axes[0]] = size
    return found


def _nearest_even(params: dict[str, Any]) -> bool:
    method = str(params.get("rounding_method"))
    return method.endswith(("1", "TO_NEAREST_EVEN"))


def _precision(value: Any) -> str:
    text = str(value).upper()
    return "highest" if "HIGHEST" in text else "high" if "HIGH" in text else "default"


def _names(info: TaskInfo) -> tuple[str, ...]:
    """Names of the array inputs; `graph.inputs` counts arrays only."""
    return tuple(info.input_names[: len(info.inputs)])
