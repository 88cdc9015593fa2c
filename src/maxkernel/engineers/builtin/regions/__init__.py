"""Programs of several kernels: parts of an operator graph as kernels, the rest left to XLA."""

from maxkernel.engineers.builtin.regions.borders import moved_borders as moved_borders
from maxkernel.engineers.builtin.regions.plan import COLLAPSED as COLLAPSED
from maxkernel.engineers.builtin.regions.plan import NAME as NAME
from maxkernel.engineers.builtin.regions.plan import implement as implement
from maxkernel.engineers.builtin.regions.plan import plans as plans
