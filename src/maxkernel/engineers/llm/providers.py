"""Builds the model behind a notation. Each SDK is imported only here, when it is used."""

from __future__ import annotations

from pydantic_ai.models import Model

from maxkernel.engineers.llm.cli import CliModel
from maxkernel.engineers.llm.models import ModelSpec, api_key, check_model
from maxkernel.engineers.llm.relay import RelayModel

OLLAMA_URL = "http://localhost:11434/v1"
"""Where a local Ollama listens by default."""

_NO_KEY = "none"
"""What servers that want no key are sent: the SDK insists on one."""


def build_model(spec: ModelSpec, role: str) -> Model:
    """A fresh model with its own connections; enter it as a context to close them.

    Raises EnvironmentFault when the SDK or the key is missing.
    """
    check_model(spec)
    if spec.kind == "cli":
        return CliModel(spec.name)
    if spec.kind == "relay":
        return RelayModel(spec.name, role)
    if spec.kind == "anthropic":
        return _anthropic(spec)
    if spec.kind == "google":
        return _google(spec)
    return _openai(spec)


def _anthropic(spec: ModelSpec) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(api_key=api_key(spec), base_url=spec.url or None)
    return AnthropicModel(spec.name, provider=provider)


def _google(spec: ModelSpec) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(api_key=api_key(spec), base_url=spec.url or None)
    return GoogleModel(spec.name, provider=provider)


def _openai(spec: ModelSpec) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    url = spec.url or (OLLAMA_URL if spec.kind == "ollama" else None)
    provider = OpenAIProvider(base_url=url, api_key=api_key(spec) or _NO_KEY)
    return OpenAIChatModel(spec.name, provider=provider)
