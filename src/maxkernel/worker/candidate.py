"""A candidate's text as a module, its tunables, and `kernel` as a function of arrays alone."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, cast

from maxkernel.types.candidate import Tunable
from maxkernel.types.evaluation import Failure
from maxkernel.worker.failures import CANDIDATE_FILE, Refused


def import_candidate(source: str) -> ModuleType:
    """Runs the source as a fresh module. Whatever the source raises passes through."""
    code = compile(source, CANDIDATE_FILE, "exec")
    module = ModuleType("kernel")
    module.__file__ = CANDIDATE_FILE
    linecache.cache[CANDIDATE_FILE] = (
        len(source), None, source.splitlines(keepends=True), CANDIDATE_FILE,
    )  # fmt: skip
    sys.modules["kernel"] = module
    exec(code, module.__dict__)
    return module


def kernel_function(module: ModuleType, chosen: Mapping[str, Tunable]) -> Callable[..., Any]:
    """`kernel` with its tunables given. Raises Refused: kinds `syntax` and `api`."""
    kernel = getattr(module, "kernel", None)
    if not callable(kernel):
        raise _refused("does not define kernel(*inputs, **tunables)", "define a function `kernel`")
    values = _defaults(getattr(module, "TUNABLES", {}))
    unknown = sorted(set(chosen) - set(values))
    if unknown:
        raise _refused(
            f"has no tunable {', '.join(unknown)}; TUNABLES names {sorted(values) or 'none'}",
            "add it to TUNABLES and to the parameters of `kernel`, or leave it out",
        )
    values.update(chosen)

    def call(*inputs: Any) -> Any:
        return kernel(*inputs, **values)

    return call


def _defaults(space: Any) -> dict[str, Tunable]:
    if not isinstance(space, dict):
        raise _refused("TUNABLES is not a dict", 'write TUNABLES = {"block_rows": (256, 128)}')
    values: dict[str, Tunable] = {}
    for name, choices in cast("dict[Any, Any]", space).items():
        if not (isinstance(name, str) and isinstance(choices, tuple | list) and choices):
            raise _refused(
                f"TUNABLES[{name!r}] is not a non-empty tuple of choices",
                'write TUNABLES = {"block_rows": (256, 128)}, the default first',
            )
        values[name] = cast("tuple[Tunable, ...]", choices)[0]
    return values


def _refused(message: str, advice: str) -> Refused:
    return Refused(Failure("capture", "syntax", f"{CANDIDATE_FILE} {message}", advice))
