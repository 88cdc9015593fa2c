"""Moves as rewrites of source: they apply to any kernel that uses the usual constructs, whoever
wrote it. Each returns the new source, or None where it does not apply."""

from maxkernel.engineers.rewrites.arithmetic import (
    approximate_reciprocals as approximate_reciprocals,
)
from maxkernel.engineers.rewrites.arithmetic import divide_once as divide_once
from maxkernel.engineers.rewrites.arithmetic import narrow_activations as narrow_activations
from maxkernel.engineers.rewrites.fetching import fetch_ahead as fetch_ahead
from maxkernel.engineers.rewrites.grid import swap_axes as swap_axes
from maxkernel.engineers.rewrites.limits import scale_vmem_limits as scale_vmem_limits
from maxkernel.engineers.rewrites.loops import unroll as unroll
from maxkernel.engineers.rewrites.loops import whole_blocks as whole_blocks
from maxkernel.engineers.rewrites.masking import skip_masked as skip_masked
from maxkernel.engineers.rewrites.memory import narrow_scratch as narrow_scratch
from maxkernel.engineers.rewrites.memory import single_buffers as single_buffers
from maxkernel.engineers.rewrites.splitting import split_sum as split_sum
