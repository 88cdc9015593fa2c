"""Small kernels of known work, for `maxkernel calibrate`: each is a task with one Pallas kernel."""

from maxkernel.suites.microkernels.table import MICROKERNELS as MICROKERNELS
from maxkernel.suites.microkernels.table import Microkernel as Microkernel
from maxkernel.suites.microkernels.table import task_of as task_of
