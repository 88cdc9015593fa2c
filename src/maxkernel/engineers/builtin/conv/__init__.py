"""Convolutions with fused epilogues, as matrix products over taps."""

from maxkernel.engineers.builtin.conv.plan import implement as implement
from maxkernel.engineers.builtin.conv.plan import plans as plans
