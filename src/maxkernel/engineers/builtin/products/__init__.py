"""Programs of several products: one or two of the same rows, and one of what becomes of them."""

from maxkernel.engineers.builtin.products.plan import implement as implement
from maxkernel.engineers.builtin.products.plan import plans as plans
