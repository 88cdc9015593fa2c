"""The judge: the only place where a verdict is made."""

from maxkernel.judge.bound import Roofline as Roofline
from maxkernel.judge.bound import fastest_rate as fastest_rate
from maxkernel.judge.cache import STAGE_VERSIONS as STAGE_VERSIONS
from maxkernel.judge.cache import Cache as Cache
from maxkernel.judge.cache import stage_key as stage_key
from maxkernel.judge.calibration import calibrations_found as calibrations_found
from maxkernel.judge.checklist import Item as Item
from maxkernel.judge.checklist import checklist as checklist
from maxkernel.judge.judge import Judge as Judge
from maxkernel.judge.judge import OnStage as OnStage
from maxkernel.judge.lint import advise as advise
from maxkernel.judge.lint import describe_holes as describe_holes
from maxkernel.judge.lint import require_sound as require_sound
from maxkernel.judge.measuring import Measurement as Measurement
from maxkernel.judge.measuring import find_tpu as find_tpu
from maxkernel.judge.measuring import measure as measure
from maxkernel.judge.prepared import Prepared as Prepared
from maxkernel.judge.source import read_source as read_source
from maxkernel.judge.timing import doubtful_baseline as doubtful_baseline
