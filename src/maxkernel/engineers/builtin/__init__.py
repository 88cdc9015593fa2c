"""The built-in team: kernels from the operator graph, without a model."""

from maxkernel.engineers.builtin.debugger import BuiltinDebugger as BuiltinDebugger
from maxkernel.engineers.builtin.implementer import BuiltinImplementer as BuiltinImplementer
from maxkernel.engineers.builtin.moves import BuiltinMover as BuiltinMover
from maxkernel.engineers.builtin.planner import BuiltinPlanner as BuiltinPlanner
from maxkernel.engineers.builtin.profiler import BuiltinProfiler as BuiltinProfiler
from maxkernel.engineers.builtin.tuner import BuiltinTuner as BuiltinTuner
