"""The only code that imports jax, in its own processes: `python -m maxkernel.worker KIND`."""
