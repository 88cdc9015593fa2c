"""Ways to drive the search: compositions of `search`, no mechanism of their own."""

from maxkernel.modes.auto import run_auto as run_auto
from maxkernel.modes.finish import Finish as Finish
from maxkernel.modes.graph import run_graph as run_graph
