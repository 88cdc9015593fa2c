"""Walking jaxprs: the ones nested in an equation, and all equations outside Pallas kernels."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jax._src import core, source_info_util

PALLAS = "pallas_call"


def nested(equation: Any) -> Iterator[tuple[str, Any]]:
    """(parameter name, jaxpr) of every jaxpr in an equation's parameters.

    Names of jaxprs in a sequence carry their index, `branches.0`.
    """
    for name, value in equation.params.items():
        if isinstance(value, core.Jaxpr | core.ClosedJaxpr):
            yield name, value
        elif isinstance(value, tuple | list):
            for index, item in enumerate(value):
                if isinstance(item, core.Jaxpr | core.ClosedJaxpr):
                    yield f"{name}.{index}", item


def open_jaxpr(jaxpr: Any) -> Any:
    """The jaxpr inside a closed one; an open one as it is."""
    return jaxpr.jaxpr if isinstance(jaxpr, core.ClosedJaxpr) else jaxpr


def constants(jaxpr: Any) -> list[Any]:
    """Array constants of a closed jaxpr; none for an open one."""
    return list(jaxpr.consts) if isinstance(jaxpr, core.ClosedJaxpr) else []


def equations(jaxpr: Any, inside_pallas: bool = False) -> Iterator[Any]:
    """Every equation, nested ones too; those of Pallas kernels only when asked for."""
    for equation in open_jaxpr(jaxpr).eqns:
        yield equation
        if equation.primitive.name != PALLAS or inside_pallas:
            for _, inner in nested(equation):
                yield from equations(inner, inside_pallas)


def line_of(jaxpr: Any, primitive: str, file: str) -> int | None:
    """Line of `file` from which the first equation of this primitive comes, in kernels too.

    Inside a library function it is the line of the call. 0 when the file has no part in it,
    None when there is no such equation.
    """
    for equation in open_jaxpr(jaxpr).eqns:
        found = [line_of(inner, primitive, file) for _, inner in nested(equation)]
        inside = [line for line in found if line is not None]
        if equation.primitive.name == primitive or inside:
            frames = source_info_util.user_frames(equation.source_info.traceback)
            own = [int(frame.start_line) for frame in frames if frame.file_name == file]
            return next((line for line in (*inside, *own) if line), 0)
    return None


def rewrite(jaxpr: Any, change: Callable[[Any], Any]) -> Any:
    """The jaxpr with `change` applied to every equation outside Pallas kernels, inner ones first.

    Open jaxprs stay open and closed ones closed.
    """
    if isinstance(jaxpr, core.ClosedJaxpr):
        return jaxpr.replace(jaxpr=rewrite(jaxpr.jaxpr, change))
    return jaxpr.replace(eqns=[change(_rewrite_inner(eqn, change)) for eqn in jaxpr.eqns])


def _rewrite_inner(equation: Any, change: Callable[[Any], Any]) -> Any:
    if equation.primitive.name == PALLAS:
        return equation
    params = dict(equation.params)
    for name, value in params.items():
        if isinstance(value, core.Jaxpr | core.ClosedJaxpr):
            params[name] = rewrite(value, change)
        elif isinstance(value, tuple | list) and any(
            isinstance(item, core.Jaxpr | core.ClosedJaxpr) for item in value
        ):
            params[name] = type(value)(
                rewrite(item, change) if isinstance(item, core.Jaxpr | core.ClosedJaxpr) else item
                for item in value
            )
    return equation.replace(params=params)
