"""What is known about Pallas on TPU: a written guide, and the installed jax read as text."""

from maxkernel.knowledge.entries import SCOPED_VMEM_MIB as SCOPED_VMEM_MIB
from maxkernel.knowledge.entries import hardware as hardware
from maxkernel.knowledge.entries import strategy_titles as strategy_titles
from maxkernel.knowledge.library import Hit as Hit
from maxkernel.knowledge.library import Library as Library
from maxkernel.knowledge.library import open_library as open_library
from maxkernel.knowledge.sheet import SHEET_LIMIT as SHEET_LIMIT
from maxkernel.knowledge.sheet import api_sheet as api_sheet
