"""Constants by search: enumerate, prune, rank, then compile and time the best."""

from maxkernel.tuner.rank import estimate as estimate
from maxkernel.tuner.rank import footprint as footprint
from maxkernel.tuner.space import assignments as assignments
from maxkernel.tuner.tune import Tuned as Tuned
from maxkernel.tuner.tune import tune as tune
