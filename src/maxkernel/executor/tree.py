"""Process trees: their memory, and their end. Linux only."""

from __future__ import annotations

import os
import signal

_PAGE = os.sysconf("SC_PAGE_SIZE")


def family(pid: int) -> list[int]:
    """A process and all its descendants, in other sessions and namespaces too."""
    found = [pid]
    for member in found:
        try:
            threads = os.listdir(f"/proc/{member}/task")
        except OSError:
            continue
        for thread in threads:
            found += map(int, read(f"/proc/{member}/task/{thread}/children").split())
    return found


def private_bytes(pid: int) -> int:
    """Resident memory of the family that is not shared with files."""
    total = 0
    for member in family(pid):
        if fields := read(f"/proc/{member}/statm").split():
            total += (int(fields[1]) - int(fields[2])) * _PAGE
    return total


def scheduled(pid: int) -> dict[int, tuple[int, int]]:
    """Of each thread of the family: nanoseconds that it ran, and that it waited for a processor.

    Empty where the kernel does not say (schedstat).
    """
    found: dict[int, tuple[int, int]] = {}
    for member in family(pid):
        try:
            threads = os.listdir(f"/proc/{member}/task")
        except OSError:
            continue
        for thread in threads:
            if fields := read(f"/proc/{member}/task/{thread}/schedstat").split():
                found[int(thread)] = int(fields[0]), int(fields[1])
    return found


def read(path: str) -> bytes:
    """A small file of /proc, without what a file object costs; empty when its process has gone."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(file, 1 << 16)
    except OSError:
        return b""
    finally:
        os.close(file)


def kill_family(pid: int) -> None:
    """Kills a process group and every descendant that left it. `pid` leads the group."""
    members = family(pid)
    for member in members:
        try:
            os.kill(member, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    kill_group(pid)


def kill_group(pid: int) -> None:
    """Kills what is left of the process group that `pid` led, which may be gone itself."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
