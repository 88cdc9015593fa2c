"""maxkernel turns a JAX function into a judged Pallas TPU kernel. Importing it imports no jax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxkernel.api import judge as judge
    from maxkernel.api import load_task as load_task
    from maxkernel.api import optimize as optimize
    from maxkernel.engineers.llm import LlmBudget as LlmBudget
    from maxkernel.types import Budget as Budget

__version__ = "0.1.0"
__all__ = ["Budget", "LlmBudget", "__version__", "judge", "load_task", "optimize"]


def __getattr__(name: str) -> Any:
    """Loads the API on first use, so that the command line starts at once."""
    if name in {"judge", "load_task", "optimize"}:
        from maxkernel import api

        return getattr(api, name)
    if name == "LlmBudget":
        from maxkernel.engineers.llm import LlmBudget

        return LlmBudget
    if name == "Budget":
        from maxkernel.types import Budget

        return Budget
    raise AttributeError(f"module 'maxkernel' has no attribute {name!r}")
