"""The only code that imports jax. It runs in its own processes: `python -m maxkernel.worker KIND`."""
