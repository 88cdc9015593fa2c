"""Grouped matrix products: consecutive rows belong to groups, each with weights of its own."""

from maxkernel.engineers.builtin.grouped.plan import implement as implement
from maxkernel.engineers.builtin.grouped.plan import plans as plans
