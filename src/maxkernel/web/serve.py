"""`maxkernel serve`: the studio on an address of this machine."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from pathlib import Path

from maxkernel.api import Models
from maxkernel.config import Settings
from maxkernel.errors import MaxkernelError, UsageError
from maxkernel.suites import registry
from maxkernel.tasks import load_task
from maxkernel.types import Task
from maxkernel.web.app import build_app
from maxkernel.web.security import Rules
from maxkernel.web.studio import Studio

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def find_tasks(folders: list[Path]) -> dict[str, Task]:
    """Tasks that sessions may be opened on: those in `folders`, and those of the suites."""
    found: dict[str, Task] = {}
    for folder in folders:
        if not folder.exists():
            raise UsageError(f"no tasks at {folder}: it does not exist")
        paths = sorted(folder.iterdir()) if folder.is_dir() else [folder]
        for path in paths:
            try:
                task = load_task(path)
            except MaxkernelError:
                continue
            found[task.name] = task
    for suite in ("jaxbench", "models"):
        found |= {name: registry.load(suite, name) for name in registry.names(suite)}
    return found


def serve(
    settings: Settings,
    host: str,
    port: int,
    tasks: list[Path],
    models: Models | None,
    unsafe_no_sandbox: bool,
) -> None:
    """Serves until interrupted; prints the address, with the token where one is needed."""
    import uvicorn

    listening = _listen(host, port)
    port = listening.getsockname()[1]
    token = "" if host in LOOPBACK else secrets.token_urlsafe(24)
    hosts = frozenset(f"{_bracketed(name)}:{port}" for name in LOOPBACK)
    studio = Studio(settings, find_tasks(tasks), models, unsafe_no_sandbox)
    address = f"http://{_bracketed(host)}:{port}/" + (f"?token={token}" if token else "")
    print(f"studio: {address}", flush=True)
    config = uvicorn.Config(
        build_app(studio, Rules(hosts, token)),
        log_level="warning",
        timeout_graceful_shutdown=2,
        server_header=False,
    )
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror}", "choose another --port"
        ) from error
    return listening


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
