"""maxkernel turns a JAX function into a judged Pallas TPU kernel. Importing it imports no jax."""

__version__ = "0.1.0"
