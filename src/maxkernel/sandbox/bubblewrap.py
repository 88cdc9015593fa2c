"""bubblewrap: own namespaces, no network, no capabilities, a read-only view of the system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from maxkernel.sandbox.base import Job

UID = "65534"
"""`nobody`: what the process sees itself as."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")
_CPUS = "/sys/devices/system/cpu"
"""libtpu's allocator aborts where it cannot count the processors."""


@dataclass(frozen=True)
class Bubblewrap:
    """Runs commands under the bubblewrap binary at `binary`."""

    binary: str
    level: str = "bubblewrap"

    def wrap(self, command: Sequence[str], job: Job) -> list[str]:
        """The command inside fresh namespaces, dying with the process that started it."""
        return [
            self.binary,
            *("--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc"),
            *("--unshare-uts", "--unshare-cgroup-try", "--disable-userns"),
            *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *("--uid", UID, "--gid", UID, "--hostname", "sandbox"),
            *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
            *_devices(job.devices),
            *_binds(job.read_only),
            *_writable(job.writable),
            *("--remount-ro", "/"),
            "--clearenv",
            *(part for item in job.environment.items() for part in ("--setenv", *item)),
            *("--chdir", str(job.writable or "/tmp")),
            "--",
            *command,
        ]


def _binds(read_only: Sequence[Path]) -> list[str]:
    arguments: list[str] = []
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    for name in (*_SYSTEM_FILES, _CPUS):
        arguments += ["--ro-bind-try", name, name]
    for path in read_only:
        arguments += ["--ro-bind", str(path), str(path)]
    return arguments


def _devices(devices: Sequence[Path]) -> list[str]:
    """libtpu finds its chips by their places on the PCI bus, which it reads below /sys."""
    if not devices:
        return []
    opened = [part for path in devices for part in ("--dev-bind", str(path), str(path))]
    return [*opened, "--ro-bind", "/sys", "/sys"]


def _writable(folder: Path | None) -> list[str]:
    return [] if folder is None else ["--bind", str(folder), str(folder)]
