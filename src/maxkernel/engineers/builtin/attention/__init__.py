"""Attention: softmax over the keys of scores from one product, times values, in one kernel."""

from maxkernel.engineers.builtin.attention.plan import implement as implement
from maxkernel.engineers.builtin.attention.plan import plans as plans
