"""Rotary positions: halves of the last dimension turned by angles, in one pass."""

from maxkernel.engineers.builtin.rotary.match import Rotation as Rotation
from maxkernel.engineers.builtin.rotary.match import rotations as rotations
from maxkernel.engineers.builtin.rotary.plan import implement as implement
from maxkernel.engineers.builtin.rotary.plan import plans as plans
