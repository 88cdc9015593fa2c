"""A plan as text that a person can edit, and back; blanks to start from."""

from __future__ import annotations

import json
from typing import Any, cast

from maxkernel.errors import UsageError
from maxkernel.types import Plan

NEW_PLAN = Plan("rowwise", "the idea in a few words", "Why it should help.")

NEW_KERNEL = '''"""Your kernel: `kernel` takes the task's inputs by position."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

TUNABLES = {}


def kernel(*inputs):
    raise NotImplementedError
'''

_HELP = "keep the lines `family:`, `strategy:` and `options:`; the reason follows the empty line"


def plan_to_text(plan: Plan) -> str:
    """Three lines of `name: value`, an empty line, then the reason."""
    return (
        f"family: {plan.family}\n"
        f"strategy: {plan.strategy}\n"
        f"options: {json.dumps(plan.options)}\n"
        f"\n{plan.reason}\n"
    )


def plan_from_text(text: str) -> Plan:
    """The plan in an edited text. Raises UsageError saying what is wrong with it."""
    head, _, reason = text.strip().partition("\n\n")
    fields: dict[str, str] = {}
    for line in head.splitlines():
        name, colon, value = line.partition(":")
        if not colon:
            raise UsageError(f"{line.strip()!r} is not a `name: value` line", _HELP)
        fields[name.strip().lower()] = value.strip()
    unknown = sorted(set(fields) - {"family", "strategy", "options"})
    if unknown:
        raise UsageError(f"a plan has no {unknown[0]!r}", _HELP)
    if not fields.get("family") or not fields.get("strategy"):
        raise UsageError("a plan needs a family and a strategy", _HELP)
    return Plan(fields["family"], fields["strategy"], reason.strip(), _options(fields))


def _options(fields: dict[str, str]) -> dict[str, int | float | bool | str]:
    text = fields.get("options") or "{}"
    try:
        value: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"options: not valid JSON: {error.msg}", 'e.g. {"block": 256}') from error
    if not isinstance(value, dict):
        raise UsageError("options: expected a JSON object", 'e.g. {"block": 256}')
    options = cast(dict[str, Any], value)
    for name, option in options.items():
        if not isinstance(option, int | float | bool | str):
            raise UsageError(f"options: {name} is no number, bool or string")
    return options
