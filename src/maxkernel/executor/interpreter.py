"""What a worker's interpreter needs to see of the file system, and its environment."""

from __future__ import annotations

import functools
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import maxkernel
from maxkernel.errors import EnvironmentFault
from maxkernel.sandbox.trial import attempt

PACKAGE = Path(maxkernel.__file__).resolve().parent
"""The source of maxkernel itself."""

_PROBE = (
    "import json, site, sys; print(json.dumps([sys.prefix, sys.base_prefix, sys.exec_prefix,"
    " sys.path, site.getuserbase() if site.ENABLE_USER_SITE else '']))"
)
_SITE = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Interpreter:
    """An interpreter for workers. `folders` is all that it must be able to read."""

    python: str
    folders: tuple[Path, ...]
    has_package: bool
    """maxkernel's folder is already on its import path."""
    user_base: str


@functools.cache
def probe(python: str) -> Interpreter:
    """Asks the interpreter where it lies, PYTHON* variables aside: workers do not get them.

    Raises EnvironmentFault when it cannot be run.
    """
    try:
        done = attempt([python, "-E", "-c", _PROBE], 60)
        done.check_returncode()
        prefix, base, exec_prefix, path, user_base = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise EnvironmentFault(
            f"the workers' interpreter {python} cannot be run: {error}",
            "set worker_python (or MAXKERNEL_WORKER_PYTHON) to a Python 3.11+ with jax and libtpu",
        ) from error
    sites = [entry for entry in path if Path(entry).name in _SITE]
    found: list[Path] = []
    for entry in (prefix, base, exec_prefix, *sites, str(PACKAGE)):
        _add(found, Path(entry))
    return Interpreter(python, tuple(found), str(PACKAGE.parent) in path, user_base)


def _add(found: list[Path], folder: Path) -> None:
    """Adds a folder and where it really lies, unless a folder that is there covers it."""
    for place in dict.fromkeys((folder, folder.resolve())):
        system = place == Path("/") or place.is_relative_to("/usr")
        if place.is_dir() and not system and not any(place.is_relative_to(f) for f in found):
            found.append(place)


def environment(interpreter: Interpreter, folder: Path, library: Path) -> dict[str, str]:
    """The whole environment of a worker whose home and temporary folder is `folder`.

    `library` is a folder from which maxkernel can be imported and nothing else.
    """
    variables = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if not interpreter.has_package:
        variables["PYTHONPATH"] = str(library)
    if interpreter.user_base:
        variables["PYTHONUSERBASE"] = interpreter.user_base
    return variables
