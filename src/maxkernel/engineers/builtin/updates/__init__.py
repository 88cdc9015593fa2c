"""Updates of states: programs per sequence and head over a matrix that is read and written once."""

from maxkernel.engineers.builtin.updates.plan import implement as implement
from maxkernel.engineers.builtin.updates.plan import plans as plans
