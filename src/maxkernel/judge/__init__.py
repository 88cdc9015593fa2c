"""The judge: the only place where a verdict is made."""

from maxkernel.judge.bound import Roofline as Roofline
from maxkernel.judge.cache import Cache as Cache
from maxkernel.judge.judge import Judge as Judge
from maxkernel.judge.judge import OnStage as OnStage
from maxkernel.judge.judge import Prepared as Prepared
from maxkernel.judge.source import read_source as read_source
