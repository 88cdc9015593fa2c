"""Which model: the notations a user may write, keys, and prices.

`anthropic:NAME`, `openai:NAME`, `google:NAME`, `ollama:NAME` (each may end in `@URL` for another
server of the same kind), `http(s)://HOST/v1#NAME` for anything that speaks OpenAI's chat
completions, `cli:COMMAND` for a program that reads a prompt and prints an answer, `relay:FOLDER`
for a person or an outside program that answers files.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from maxkernel.engineers.llm.budget import LlmBudget
from maxkernel.errors import EnvironmentFault, UsageError

Kind = Literal["anthropic", "openai", "google", "ollama", "url", "cli", "relay"]

KEYS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "url": ("MAXKERNEL_API_KEY",),
}
"""Environment variables that hold the key, by kind. A `url` may do without one. A key for one
provider is never sent to another one's server."""

_SDK = {"anthropic": "anthropic", "openai": "openai", "google": "google.genai"}
_FREE: frozenset[str] = frozenset({"ollama", "relay"})
_FORMS = (
    "anthropic:NAME, openai:NAME, google:NAME, ollama:NAME, https://HOST/v1#NAME, "
    "cli:COMMAND, relay:FOLDER or builtin"
)


class ModelSpec(msgspec.Struct, frozen=True):
    """One model, as the user named it."""

    kind: Kind
    name: str
    """The provider's name for it; the command or the folder for `cli` and `relay`."""
    url: str = ""
    """Base URL of the server; empty for the provider's own."""

    def __str__(self) -> str:
        if self.kind == "url":
            return f"{self.url}#{self.name}"
        return f"{self.kind}:{self.name}" + (f"@{self.url}" if self.url else "")


class Price(msgspec.Struct, frozen=True):
    """US dollars per million tokens."""

    input: float
    output: float


class ProviderStatus(msgspec.Struct, frozen=True):
    """What `doctor` says of one provider."""

    name: str
    installed: bool
    key: str
    """The environment variable that holds a key; empty when none is set."""


def parse_model(text: str) -> ModelSpec:
    """The model that `text` names; raises UsageError with the accepted notations otherwise."""
    text = text.strip()
    if text.startswith(("http://", "https://")):
        return _parse_url(text)
    kind, _, name = text.partition(":")
    if kind in ("cli", "relay") and name.strip():
        return ModelSpec(kind, name.strip())
    if kind in ("anthropic", "openai", "google", "ollama") and name:
        name, _, url = name.partition("@")
        if url and not url.startswith(("http://", "https://")):
            raise UsageError(f"bad model {text!r}: {url!r} after the @ is no URL")
        _refuse_credentials(text, url)
        return ModelSpec(kind, name, url)
    raise UsageError(f"bad model {text!r}", f"write {_FORMS}")


def _parse_url(text: str) -> ModelSpec:
    url, _, name = text.partition("#")
    if not name:
        raise UsageError(
            f"bad model {text!r}: it names no model",
            "write the URL, a # and the model's name: http://localhost:8000/v1#qwen3-coder",
        )
    _refuse_credentials(text, url)
    return ModelSpec("url", name, url.rstrip("/"))


def _refuse_credentials(text: str, url: str) -> None:
    """The notation is stored in run files, where a key must never be."""
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query:
        shown = text.replace(parts.netloc, parts.hostname or "").replace(f"?{parts.query}", "")
        raise UsageError(
            f"the URL of model {shown!r} holds credentials",
            "leave them out and put the key in MAXKERNEL_API_KEY",
        )


def api_key(spec: ModelSpec) -> str | None:
    """The key for this model from the environment, None where there is none."""
    return next((os.environ[n] for n in KEYS.get(spec.kind, ()) if os.environ.get(n)), None)


def check_model(spec: ModelSpec) -> None:
    """Raises when this model cannot be asked: no key, no SDK."""
    sdk = () if spec.kind in ("cli", "relay") else (_SDK.get(spec.kind, "openai"),)
    check_installed(f"model {spec}", *sdk)
    if spec.kind in _SDK and api_key(spec) is None:
        names = " or ".join(KEYS[spec.kind])
        raise EnvironmentFault(
            f"no key for {spec}", f"set {names}, or use --model builtin, which needs none"
        )


def check_installed(what: str, *sdk: str) -> None:
    """Raises EnvironmentFault when `what` cannot work for want of a library."""
    missing = [module for module in ("pydantic_ai", *sdk) if not _has(module)]
    if missing:
        raise EnvironmentFault(
            f"{what} needs the Python package {missing[0]}", "pip install 'maxkernel[llm]'"
        )


def check_budget(specs: Sequence[ModelSpec], budget: LlmBudget) -> None:
    """A cost limit cannot hold a model whose price is not known: it needs a token limit."""
    if budget.max_tokens is not None:
        return
    for spec in specs:
        if price_of(spec) is None:
            raise UsageError(
                f"no price is known for {spec}, so its cost cannot be limited",
                "give a token limit with --max-tokens",
            )


def price_of(spec: ModelSpec) -> Price | None:
    """Today's list price, None where none is known. Models that run at home cost nothing."""
    million = 1_000_000
    used = cost_of(spec, 1000, 0), cost_of(spec, 0, 1000)
    if used[0] is None or used[1] is None:
        return None
    return Price(used[0] * million / 1000, used[1] * million / 1000)


def cost_of(
    spec: ModelSpec, input_tokens: int, output_tokens: int, cached: int = 0, written: int = 0
) -> float | None:
    """US dollars for one request by genai-prices; None where the price is not known.

    `cached` and `written` are the input tokens read from and written to the prompt cache.
    """
    if spec.kind in _FREE:
        return 0.0
    if spec.kind == "cli" or not _has("genai_prices"):
        return None
    from genai_prices import Usage, calc_price

    usage = Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=written,
    )
    try:
        if spec.kind == "url":
            return float(calc_price(usage, spec.name, provider_api_url=spec.url).total_price)
        return float(calc_price(usage, spec.name, provider_id=spec.kind).total_price)
    except (LookupError, ValueError):
        return None


def providers() -> tuple[ProviderStatus, ...]:
    """Every provider with its SDK and key on this machine."""
    found: list[ProviderStatus] = []
    for kind, module in _SDK.items():
        key = next((name for name in KEYS[kind] if os.environ.get(name)), "")
        found.append(ProviderStatus(kind, _has("pydantic_ai") and _has(module), key))
    return tuple(found)


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
