"""`maxkernel serve`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from maxkernel.api import Models
from maxkernel.config import load_settings
from maxkernel.errors import EXIT_ACCEPTED, EnvironmentFault


def run_serve(
    host: str, port: int, tasks: list[str], unsafe: bool, models: Models | None = None
) -> int:
    """Serves the studio until interrupted."""
    require_studio()
    from maxkernel.web.serve import serve

    folders = [Path(folder) for folder in tasks]
    serve(load_settings(), host, port, folders, models, unsafe)
    return EXIT_ACCEPTED


def require_studio() -> None:
    """Raises EnvironmentFault when the studio's libraries are not installed."""
    missing = [m for m in ("jinja2", "starlette", "uvicorn") if importlib.util.find_spec(m) is None]
    if missing:
        raise EnvironmentFault(
            f"the studio needs {', '.join(missing)}", "pip install 'maxkernel[studio]'"
        )
