"""Limits that a process sets on itself. They need no privileges."""

from __future__ import annotations

import ctypes
import math
import os
import random
import resource
import signal

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4  # linux/prctl.h


def protect_memory() -> None:
    """No other process of this user may trace this one or read its memory; children inherit it."""
    _prctl(_PR_SET_DUMPABLE, 0)


def use_few_processors(count: int = 4) -> None:
    """Keeps this process and its children on a few processors, chosen at random.

    The CPU backend starts threads for each processor it sees, each with its own stack and heap:
    on a large machine they alone would fill a candidate's address space.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) > count:
        os.sched_setaffinity(0, random.SystemRandom().sample(allowed, count))


def limit_candidate(seconds: float, memory_bytes: int) -> None:
    """Bounds for a child that runs a candidate: memory, CPU time, files, core dumps.

    CPU time is a backstop for the parent's clock: it counts every thread.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    cpu = cpu_seconds(seconds)
    for kind, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 256),
    ):
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def cpu_seconds(seconds: float) -> int:
    """Processor time, over all threads, that a child with so many seconds of wall time may use."""
    return math.ceil(seconds) * (os.cpu_count() or 1) + 1


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")
