"""Row-wise programs: elementwise, broadcast and whole-row reductions over (rows, columns)."""

from maxkernel.engineers.builtin.rowwise.plan import implement as implement
from maxkernel.engineers.builtin.rowwise.plan import plans as plans
