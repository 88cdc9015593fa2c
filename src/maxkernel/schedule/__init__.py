"""Reads the TPU compiler's final programs and simulates them: the clock that needs no TPU."""

from maxkernel.schedule.digest import digest as digest
from maxkernel.schedule.expectation import expected_error as expected_error
from maxkernel.schedule.expectation import unsure as unsure
from maxkernel.schedule.explain import bottleneck as bottleneck
from maxkernel.schedule.folder import dump_flags as dump_flags
from maxkernel.schedule.operands import KernelOperands as KernelOperands
from maxkernel.schedule.operands import Known as Known
from maxkernel.schedule.operands import ScalarOperand as ScalarOperand
from maxkernel.schedule.problem import ScheduleError as ScheduleError
from maxkernel.schedule.simulate import simulate as simulate
from maxkernel.schedule.simulate import simulate_draws as simulate_draws
from maxkernel.schedule.units import op_use as op_use
from maxkernel.schedule.view import ProfileView as ProfileView
from maxkernel.schedule.view import Roof as Roof
from maxkernel.schedule.view import profile_view as profile_view
from maxkernel.schedule.view import roof as roof
