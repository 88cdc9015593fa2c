"""Matrix products with a scale per block of the contraction."""

from maxkernel.engineers.builtin.scaled.plan import implement as implement
from maxkernel.engineers.builtin.scaled.plan import plans as plans
