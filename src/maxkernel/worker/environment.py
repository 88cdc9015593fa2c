"""What a worker process sets up before jax is imported: variables, file descriptors, its end."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
LOG_LIMIT = 1 << 20
"""Bytes of a worker's own output that are kept."""

VARIABLES = {
    "JAX_PLATFORMS": "cpu",
    # libtpu as a compiler only: no metadata server, no lock between processes.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v6e-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
"""Set in every worker. jax and libtpu read them once, when they are imported."""

MEASURING = {
    "JAX_PLATFORMS": "tpu,cpu",
    # One chip of the host, as several processes would share them; no metadata server is in reach.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_PROCESS_BOUNDS": "1,1,1",
    "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
    "TPU_VISIBLE_CHIPS": "0",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
"""The same for a worker that runs programs on a TPU; inputs are drawn on its CPU."""


def prepare(kind: str) -> tuple[int, int]:
    """Sets the variables for `kind` and returns private descriptors of the request pipe.

    Afterwards descriptor 0 is /dev/null, and 1 is 2, a file that the executor reads when this
    process dies: no print can reach the reply pipe.
    """
    os.environ.update(MEASURING if kind == "measure" else VARIABLES)
    if kind == "capture":
        # A forking process must have one thread; OpenBLAS would start its pool on import.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
    _die_with_parent()
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return requests, replies


def bound_log() -> None:
    """Empties the log when it has outgrown `LOG_LIMIT`. Called between requests."""
    if os.fstat(2).st_size > LOG_LIMIT:
        os.ftruncate(2, 0)


def _die_with_parent() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
