"""The human-in-the-loop mode: one session over a run file, any number of clients, one engine."""

from maxkernel.modes.pair.acts import Approve as Approve
from maxkernel.modes.pair.acts import Ask as Ask
from maxkernel.modes.pair.acts import Focus as Focus
from maxkernel.modes.pair.acts import Stage as Stage
from maxkernel.modes.pair.engine import PairEngine as PairEngine
from maxkernel.modes.pair.facts import best_of as best_of
from maxkernel.modes.pair.facts import budget_of as budget_of
from maxkernel.modes.pair.facts import evaluation_of as evaluation_of
from maxkernel.modes.pair.facts import find_design as find_design
from maxkernel.modes.pair.facts import speedup as speedup
from maxkernel.modes.pair.glossary import calls_by_line as calls_by_line
from maxkernel.modes.pair.glossary import unit_of as unit_of
from maxkernel.modes.pair.session import MAX_SOURCE_BYTES as MAX_SOURCE_BYTES
from maxkernel.modes.pair.session import PairSession as PairSession
from maxkernel.modes.pair.state import Bench as Bench
from maxkernel.modes.pair.state import Card as Card
from maxkernel.modes.pair.state import Line as Line
from maxkernel.modes.pair.state import Proposal as Proposal
from maxkernel.modes.pair.state import State as State
from maxkernel.modes.pair.suggest import TITLES as TITLES
from maxkernel.modes.pair.suggest import describe as describe
