"""One matrix product with what comes before and after it."""

from maxkernel.engineers.builtin.matmul.plan import implement as implement
from maxkernel.engineers.builtin.matmul.plan import plans as plans
