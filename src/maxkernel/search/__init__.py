"""What every mode is made of: a context that judges and remembers, and the expansion of a plan."""

from maxkernel.search.context import Context as Context
from maxkernel.search.context import Progress as Progress
from maxkernel.search.context import Silent as Silent
from maxkernel.search.expand import Attempt as Attempt
from maxkernel.search.expand import expand as expand
from maxkernel.search.expand import tune_design as tune_design
