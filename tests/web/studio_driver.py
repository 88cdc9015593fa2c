"""Starts `maxkernel serve` as users do, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "pair"))

from pairing_helpers import tiny_task

MAXKERNEL = [sys.executable, "-c", "from maxkernel.cli import main; main()"]
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


class Place:
    """A folder with a task, runs and a cache, and the environment that names them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.task = tiny_task(root / "tasks")
        self.runs = root / "runs"
        self.environment = os.environ | {
            "MAXKERNEL_RUNS_DIR": str(self.runs),
            "MAXKERNEL_CACHE_DIR": str(root / "cache"),
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """`maxkernel ARGUMENTS` in a process group of its own."""
        return subprocess.Popen(
            [*MAXKERNEL, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


class Studio:
    """A running `maxkernel serve`."""

    def __init__(self, place: Place, *arguments: str) -> None:
        tasks = str(place.task.parent)
        self.process = place.start("serve", "--port", "0", "--tasks", tasks, *arguments)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("studio: "):
            self.process.stdout.close()
            raise AssertionError(f"no studio, but {line!r}; status {self.process.wait(30)}")
        self.address = line.removeprefix("studio: ").strip()
        """With the token where there is one."""
        self.port = int(self.address.split("/")[2].rpartition(":")[2])

    @property
    def url(self) -> str:
        """Address without path and token."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> int:
        """Ends it as Ctrl-C does; its exit status."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(60)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
