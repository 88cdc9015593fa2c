"""How models are named, which keys they need, what they cost."""

from __future__ import annotations

import subprocess
import sys

import pytest
from llm_helpers import KEY

from maxkernel.engineers.llm import (
    check_model,
    count_models,
    forecast,
    parse_model,
    price_of,
    probe,
    providers,
)
from maxkernel.engineers.llm.staff import chosen_models
from maxkernel.errors import EnvironmentFault, UsageError

GOOD = {
    "anthropic:claude-opus-4-7": ("anthropic", "claude-opus-4-7", ""),
    "openai:gpt-4.1@http://localhost:1/v1": ("openai", "gpt-4.1", "http://localhost:1/v1"),
    "google:gemini-2.5-pro": ("google", "gemini-2.5-pro", ""),
    "ollama:qwen3:32b": ("ollama", "qwen3:32b", ""),
    "http://localhost:8000/v1#Qwen/Qwen3": ("url", "Qwen/Qwen3", "http://localhost:8000/v1"),
    "cli:claude -p --model opus": ("cli", "claude -p --model opus", ""),
    "relay:~/answers": ("relay", "~/answers", ""),
}


@pytest.mark.parametrize("text", GOOD)
def test_every_notation_is_read_and_written_back(text):
    spec = parse_model(text)
    assert (spec.kind, spec.name, spec.url) == GOOD[text]
    assert str(spec) == text
    assert parse_model(str(spec)) == spec


@pytest.mark.parametrize(
    "text",
    ["gpt-4", "mistral:large", "openai:", "cli:", "https://host/v1", "openai:x@host", "", ":x"],
)
def test_bad_notations_are_refused_with_the_good_ones(text):
    with pytest.raises(UsageError) as caught:
        parse_model(text)
    assert text in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "https://me:secret@host/v1#m",
        "https://host/v1?key=secret#m",
        "openai:gpt@https://me:secret@host",
    ],
)
def test_credentials_never_enter_a_notation(text):
    with pytest.raises(UsageError) as caught:
        parse_model(text)
    assert "secret" not in caught.value.message + caught.value.advice


def test_a_missing_key_is_named(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(EnvironmentFault) as caught:
        check_model(parse_model("openai:gpt-4.1"))
    assert "OPENAI_API_KEY" in caught.value.advice
    check_model(parse_model("http://localhost:1/v1#m"))
    check_model(parse_model("ollama:m"))


def test_prices_are_known_for_the_great_providers():
    price = price_of(parse_model("openai:gpt-4.1"))
    assert price is not None and (price.input, price.output) == (2.0, 8.0)
    assert price_of(parse_model("anthropic:claude-opus-4-7")) is not None
    assert price_of(parse_model("google:gemini-2.5-pro")) is not None
    free = price_of(parse_model("ollama:qwen3"))
    assert free is not None and free.output == 0.0
    assert price_of(parse_model("cli:claude -p")) is None
    assert price_of(parse_model("openai:no-such-model")) is None


def test_doctor_knows_who_has_a_key(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    found = {status.name: status for status in providers()}
    assert found["anthropic"].key == "" and found["openai"].key == "OPENAI_API_KEY"
    assert all(status.installed for status in found.values())
    assert KEY not in repr(found)


def test_a_probe_asks_one_short_question(server):
    from fake_llm_server import Say

    server.script(Say("ready"))
    assert probe(f"openai:gpt-4.1@{server.url}/v1") == "ready"
    assert len(server.requests) == 1


BASES = {
    "openai": ("OPENAI_BASE_URL", "/v1"),
    "anthropic": ("ANTHROPIC_BASE_URL", ""),
    "google": ("GOOGLE_GEMINI_BASE_URL", ""),
}


@pytest.mark.parametrize("kind", BASES)
def test_a_provider_is_asked_for_its_models(server, kind, monkeypatch):
    name, path = BASES[kind]
    monkeypatch.setenv(name, server.url + path)
    assert count_models(kind) == 2
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(variable, "bad-key-0123456789")
    with pytest.raises(EnvironmentFault, match=f"{kind} does not answer") as caught:
        count_models(kind)
    assert "bad-key" not in caught.value.message
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    with pytest.raises(EnvironmentFault, match=f"{kind} does not answer"):
        count_models(kind)


def test_roles_choose_their_models():
    chosen = chosen_models(
        {"default": ["openai:a", "google:b"], "planner": ["anthropic:c"], "tuner": ["builtin"]}
    )
    assert [str(spec) for spec in chosen["planner"]] == ["anthropic:c"]
    assert [str(spec) for spec in chosen["debugger"]] == ["openai:a", "google:b"]
    assert "tuner" not in chosen
    assert chosen_models({"default": ["builtin"]}) == {}
    with pytest.raises(UsageError, match="no role 'plannner'"):
        chosen_models({"plannner": ["openai:a"]})
    with pytest.raises(UsageError, match="not both"):
        chosen_models({"planner": ["builtin", "openai:a"]})


def test_a_forecast_adds_up():
    models = chosen_models({"default": ["openai:gpt-4.1"]})
    one, three = forecast(models, 1), forecast(models, 3)
    assert one.requests > 4 and three.requests == 3 * one.requests
    assert one.cost is not None and 0.01 < one.cost < 2
    assert three.cost == pytest.approx(3 * one.cost)
    assert forecast(chosen_models({"default": ["cli:x"]}), 1).cost is None
    assert forecast({}, 5).requests == 0


def test_no_sdk_is_imported_before_a_question():
    code = (
        "import sys, maxkernel.engineers.llm as llm;"
        "llm.parse_model('openai:x'); llm.providers();"
        "print(sorted(m for m in ('pydantic_ai','openai','anthropic','google.genai')"
        " if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_the_sdk_in_use_is_imported():
    code = (
        "import sys, os; os.environ['OPENAI_API_KEY'] = 'x';"
        "from maxkernel.engineers.llm.providers import build_model;"
        "from maxkernel.engineers.llm import parse_model;"
        "build_model(parse_model('openai:x'), 'planner');"
        "print([m for m in ('openai','anthropic','google.genai') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['openai']"


def test_what_the_first_question_needs_is_imported_ahead():
    code = (
        "import sys; from maxkernel.engineers.llm import parse_model, warm_up; "
        "assert 'pydantic_ai' not in sys.modules; "
        "warm_up([parse_model('http://localhost/v1#some')]).join(); "
        "assert 'pydantic_ai.models.openai' in sys.modules and 'anthropic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
