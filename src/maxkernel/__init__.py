"""maxkernel turns a JAX function into a judged Pallas TPU kernel. Importing it imports no jax."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxkernel.api import judge as judge
    from maxkernel.api import load_task as load_task
    from maxkernel.api import optimize as optimize
    from maxkernel.engineers.llm import LlmBudget as LlmBudget
    from maxkernel.types import Budget as Budget

__version__ = "0.1.0"
__all__ = ["Budget", "LlmBudget", "__version__", "judge", "load_task", "optimize"]


_CALLS = frozenset({"judge", "load_task", "optimize"})


class _Package(ModuleType):
    """`judge` names a function of the API and a package: importing the package keeps the function.

    `from maxkernel.judge import Judge` finds the package all the same.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _CALLS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """Loads the API on first use, so that the command line starts at once."""
    if name in _CALLS:
        from maxkernel import api

        return getattr(api, name)
    if name == "LlmBudget":
        from maxkernel.engineers.llm import LlmBudget

        return LlmBudget
    if name == "Budget":
        from maxkernel.types import Budget

        return Budget
    raise AttributeError(f"module 'maxkernel' has no attribute {name!r}")
