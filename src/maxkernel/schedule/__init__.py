"""Reads the TPU compiler's final programs and simulates them: the clock that needs no TPU."""

from maxkernel.schedule.expectation import expected_error as expected_error
from maxkernel.schedule.expectation import unsure as unsure
from maxkernel.schedule.explain import digest as digest
from maxkernel.schedule.folder import DUMP_FLAGS as DUMP_FLAGS
from maxkernel.schedule.operands import ScalarOperand as ScalarOperand
from maxkernel.schedule.problem import ScheduleError as ScheduleError
from maxkernel.schedule.simulate import simulate as simulate
