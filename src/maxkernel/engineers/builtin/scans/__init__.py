"""Linear attention with decays: a causal product without a softmax, as a scan over chunks."""

from maxkernel.engineers.builtin.scans.plan import implement as implement
from maxkernel.engineers.builtin.scans.plan import plans as plans
