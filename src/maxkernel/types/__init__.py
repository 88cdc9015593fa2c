"""The vocabulary of maxkernel: frozen, serialisable values without behaviour.

Everything that crosses a process boundary or enters a run file is one of these.
"""

from maxkernel.types.artifact import Artifact as Artifact
from maxkernel.types.artifact import ArtifactFacts as ArtifactFacts
from maxkernel.types.artifact import PallasCall as PallasCall
from maxkernel.types.candidate import Candidate as Candidate
from maxkernel.types.candidate import Tunable as Tunable
from maxkernel.types.candidate import TunableSpace as TunableSpace
from maxkernel.types.clock import BufferUse as BufferUse
from maxkernel.types.clock import Calibration as Calibration
from maxkernel.types.clock import Clock as Clock
from maxkernel.types.clock import CopyTime as CopyTime
from maxkernel.types.clock import Draw as Draw
from maxkernel.types.clock import LineTime as LineTime
from maxkernel.types.clock import OpTime as OpTime
from maxkernel.types.clock import ProgramTime as ProgramTime
from maxkernel.types.clock import Provenance as Provenance
from maxkernel.types.clock import RegionTime as RegionTime
from maxkernel.types.clock import Time as Time
from maxkernel.types.clock import TraceEvent as TraceEvent
from maxkernel.types.evaluation import DISTRIBUTIONS as DISTRIBUTIONS
from maxkernel.types.evaluation import WON as WON
from maxkernel.types.evaluation import Confirmation as Confirmation
from maxkernel.types.evaluation import Distribution as Distribution
from maxkernel.types.evaluation import Evaluation as Evaluation
from maxkernel.types.evaluation import Failure as Failure
from maxkernel.types.evaluation import FailureKind as FailureKind
from maxkernel.types.evaluation import Numerics as Numerics
from maxkernel.types.evaluation import OutputError as OutputError
from maxkernel.types.evaluation import Spot as Spot
from maxkernel.types.evaluation import Stage as Stage
from maxkernel.types.evaluation import Trial as Trial
from maxkernel.types.evaluation import Verdict as Verdict
from maxkernel.types.graph import Graph as Graph
from maxkernel.types.graph import Node as Node
from maxkernel.types.graph import Value as Value
from maxkernel.types.lint import LintResult as LintResult
from maxkernel.types.lint import Shortcut as Shortcut
from maxkernel.types.search import Budget as Budget
from maxkernel.types.search import Design as Design
from maxkernel.types.search import Diagnosis as Diagnosis
from maxkernel.types.search import Fill as Fill
from maxkernel.types.search import InputCase as InputCase
from maxkernel.types.search import Intent as Intent
from maxkernel.types.search import Move as Move
from maxkernel.types.search import Outcome as Outcome
from maxkernel.types.search import Plan as Plan
from maxkernel.types.task import ArraySpec as ArraySpec
from maxkernel.types.task import Task as Task
from maxkernel.types.task import TaskInfo as TaskInfo
from maxkernel.types.task import Tolerance as Tolerance
