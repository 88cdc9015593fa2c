"""Attention over pages: keys and values lie in a pool, in pages that a table names."""

from maxkernel.engineers.builtin.paged.plan import implement as implement
from maxkernel.engineers.builtin.paged.plan import plans as plans
