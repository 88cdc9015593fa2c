"""Recurrences: loops over chunks that carry states, for batches and heads side by side."""

from maxkernel.engineers.builtin.recurrence.plan import implement as implement
from maxkernel.engineers.builtin.recurrence.plan import plans as plans
