"""Executes, on the CPU with numpy, the very program that is compiled for the TPU.

`load` decodes a `jax.export` artifact and the Mosaic kernels inside it; `run` executes it block by
block with the TPU's memory semantics: unwritten memory holds poison, DMAs land at their wait,
accesses are checked for bounds and races. Anything not understood raises `Unsupported`.
"""

from maxkernel.worker.mosaic.artifact import Program as Program
from maxkernel.worker.mosaic.artifact import load as load
from maxkernel.worker.mosaic.compare import Constant as Constant
from maxkernel.worker.mosaic.compare import Differences as Differences
from maxkernel.worker.mosaic.compare import same_up_to_sizes as same_up_to_sizes
from maxkernel.worker.mosaic.dtypes import POISONS as POISONS
from maxkernel.worker.mosaic.errors import BadArtifact as BadArtifact
from maxkernel.worker.mosaic.errors import BrokenPromise as BrokenPromise
from maxkernel.worker.mosaic.errors import Deadlock as Deadlock
from maxkernel.worker.mosaic.errors import Exhausted as Exhausted
from maxkernel.worker.mosaic.errors import MosaicError as MosaicError
from maxkernel.worker.mosaic.errors import OutOfBounds as OutOfBounds
from maxkernel.worker.mosaic.errors import Race as Race
from maxkernel.worker.mosaic.errors import Unfinished as Unfinished
from maxkernel.worker.mosaic.errors import Unsupported as Unsupported
from maxkernel.worker.mosaic.errors import WrittenInput as WrittenInput
from maxkernel.worker.mosaic.facts import Facts as Facts
from maxkernel.worker.mosaic.facts import gather_facts as gather_facts
from maxkernel.worker.mosaic.facts import influence as influence
from maxkernel.worker.mosaic.launch import Executable as Executable
from maxkernel.worker.mosaic.launch import Launched as Launched
from maxkernel.worker.mosaic.launch import compile_kernel as compile_kernel
from maxkernel.worker.mosaic.launch import launch as launch
from maxkernel.worker.mosaic.model import Kernel as Kernel
from maxkernel.worker.mosaic.model import Options as Options
from maxkernel.worker.mosaic.model import Window as Window
from maxkernel.worker.mosaic.outer import run as run
from maxkernel.worker.mosaic.spot import Blocks as Blocks
from maxkernel.worker.mosaic.spot import Partial as Partial
from maxkernel.worker.mosaic.spot import Spot as Spot
from maxkernel.worker.mosaic.spot import output_blocks as output_blocks
from maxkernel.worker.mosaic.spot import run_blocks as run_blocks
from maxkernel.worker.mosaic.spot import spot_check as spot_check
from maxkernel.worker.mosaic.summary import artifact_facts as artifact_facts
from maxkernel.worker.mosaic.summary import failure_of as failure_of
from maxkernel.worker.mosaic.work import sampled_flops as sampled_flops
