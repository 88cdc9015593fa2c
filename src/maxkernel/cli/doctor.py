"""`maxkernel doctor`: does this machine have what a run needs?"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from maxkernel.api import open_session
from maxkernel.cli import tables
from maxkernel.cli.commands import print_json
from maxkernel.cli.measured import NO_TPU
from maxkernel.config import config_file, load_settings
from maxkernel.engineers.llm import KEYS, ProviderStatus, count_models, probe, providers
from maxkernel.errors import EXIT_ACCEPTED, EXIT_ENVIRONMENT, MaxkernelError
from maxkernel.executor import open_executor
from maxkernel.executor.devices import tpu_device_files
from maxkernel.judge import calibrations_found, find_tpu
from maxkernel.types import Failure


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    name: str
    ok: bool
    text: str
    advice: str = ""


def run_doctor(as_json: bool, probe_providers: bool = False, models: Sequence[str] = ()) -> int:
    """Prints what was found; exit status 3 when a run could not work.

    With `probe_providers`, every provider with a key is asked for its list of models; each of
    `models` is asked one short question.
    """
    findings = [
        Finding("python", sys.version_info >= (3, 11), platform.python_version()),
        _settings(),
        *_workers(),
        _tpu(),
        *(_provider(status, probe_providers) for status in providers()),
        *([_ollama()] if probe_providers else []),
        *(_model(word) for word in models),
    ]
    status = EXIT_ACCEPTED if all(f.ok for f in findings) else EXIT_ENVIRONMENT
    if as_json:
        print_json({"findings": [vars(f) for f in findings], "exit_status": status})
        return status
    for finding in findings:
        tables.console.print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name}: {finding.text}")
        if finding.advice:
            tables.console.print(f"      try: {finding.advice}")
    return status


def _settings() -> Finding:
    try:
        settings = load_settings()
    except MaxkernelError as error:
        return Finding("settings", False, error.message, error.advice)
    text = (
        f"config file {config_file()}, cache {settings.cache_path}, runs {settings.runs_path}, "
        f"workers {settings.workers}"
    )
    return Finding("settings", True, text)


def _provider(status: ProviderStatus, asked: bool) -> Finding:
    """A provider without a key is no fault: the built-in team needs none."""
    name, variables = f"models of {status.name}", " or ".join(KEYS[status.name])
    if not status.installed:
        return Finding(name, True, "no SDK", "pip install 'maxkernel[llm]'")
    if not status.key:
        return Finding(name, True, f"no key in {variables}")
    text = f"key in {status.key}"
    if not asked:
        return Finding(name, True, text)
    try:
        return Finding(name, True, f"{text}; it answers: {count_models(status.name)} models")
    except MaxkernelError as error:
        return Finding(
            name, False, f"{text}; {error.message}", error.advice or f"check {variables}"
        )


def _ollama() -> Finding:
    try:
        return Finding("models of ollama", True, f"it answers: {count_models('ollama')} models")
    except MaxkernelError:
        return Finding("models of ollama", True, "no local server answers")


def _model(word: str) -> Finding:
    name = f"model {word}"
    try:
        return Finding(name, True, f"it answers: {probe(word)[:60]}")
    except MaxkernelError as error:
        return Finding(name, False, error.message, error.advice)


def _workers() -> list[Finding]:
    """The workers, and the constants that the clock has with their compiler."""
    try:
        with open_session("v6e", use_cache=False) as session:
            versions = session.judge.versions
            level = session.executor.sandbox
    except MaxkernelError as error:
        return [Finding("workers", False, error.message, error.advice)]
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [Finding("workers", True, f"{text}; sandbox {level}"), _clock(versions)]


def _clock(versions: Mapping[str, str]) -> Finding:
    """Whether a calibration is in use, for which device and compiler; without one, no fault."""
    try:
        settings = load_settings()
        found = calibrations_found(settings, versions)
    except MaxkernelError as error:
        return Finding("clock", False, error.message, error.advice)
    if not found:
        where = "is off" if settings.calibration else f"has no file in {settings.calibration_path}"
        return Finding("clock", True, f"published constants for every target: calibration {where}")
    unused = [one for one in found if one.clock is None]
    advice = "maxkernel calibrate, on a TPU host with this compiler" if unused else ""
    return Finding("clock", True, "; ".join(one.note for one in found), advice)


def _tpu() -> Finding:
    """No TPU is no fault: times are simulated then. Nothing is started where there can be none."""
    files = tpu_device_files()
    if not files:
        return Finding("tpu", True, f"{NO_TPU}; times are simulated")
    try:
        with closing(open_executor(load_settings())) as executor:
            found = find_tpu(executor)
    except MaxkernelError as error:
        return Finding("tpu", True, f"not asked: {error.message}", error.advice)
    if isinstance(found, Failure):
        text = f"{', '.join(map(str, files))}, but no measured times: {found.message}"
        return Finding("tpu", True, text, found.advice)
    return Finding("tpu", True, f"{found.kind} answers ({found.count} devices to this process)")
