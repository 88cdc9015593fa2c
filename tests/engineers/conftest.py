"""Keeps jax on the CPU, away from the TPU runtime's search for a machine."""

import os

os.environ.update(
    JAX_PLATFORMS="cpu",
    TPU_SKIP_MDS_QUERY="1",
    TPU_WORKER_HOSTNAMES="localhost",
    TPU_ACCELERATOR_TYPE="v6e-4",
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",
)
