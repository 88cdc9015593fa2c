"""Handlers by group of operations; importing this package fills the table of `lower`."""

from maxkernel.worker.mosaic.ops import casts as casts
from maxkernel.worker.mosaic.ops import control as control
from maxkernel.worker.mosaic.ops import dma as dma
from maxkernel.worker.mosaic.ops import floats as floats
from maxkernel.worker.mosaic.ops import integers as integers
from maxkernel.worker.mosaic.ops import loads as loads
from maxkernel.worker.mosaic.ops import matmul as matmul
from maxkernel.worker.mosaic.ops import refs as refs
from maxkernel.worker.mosaic.ops import shapes as shapes
from maxkernel.worker.mosaic.ops import vectors as vectors
