"""Isolation of worker processes: one protocol, bubblewrap or nothing."""

from maxkernel.sandbox.base import Job as Job
from maxkernel.sandbox.base import Sandbox as Sandbox
from maxkernel.sandbox.bubblewrap import Bubblewrap as Bubblewrap
from maxkernel.sandbox.detect import detect as detect
from maxkernel.sandbox.none import NoSandbox as NoSandbox
