"""Imports everything that tracing and exporting a Pallas kernel touches, before the first fork."""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false, reportPrivateUsage=false
# pyright: reportUnknownVariableType=false, reportMissingModuleSource=false

from __future__ import annotations

import importlib
import sys

_MODULES = (
    "jax.export",
    "jax.scipy.special",
    "jax.experimental.pallas",
    "jax.experimental.pallas.tpu",
    "jax._src.pallas.mosaic.pallas_call_registration",
    "jax._src.pallas.mosaic.sc_lowering",
    "jax._src.pallas.mosaic.interpret.interpret_pallas_call",
    "jax._src.export.serialization",
    "jax._src.export.shape_poly",
    "jax._src.extend.random",
    "jax._src.xla_transform",
    "jaxlib.mlir.dialects.mhlo",
    "maxkernel.worker.capture",
    "maxkernel.worker.outline",
)
_GPU_INTERPRETER = "jax._src.pallas.mosaic_gpu.interpret.interpret_pallas_call"


def everything() -> None:
    """Imports the modules; missing private ones cost a later import, nothing else.

    jax tries the GPU interpreter at each lowering in interpret mode, 0.15 s when it cannot be
    imported: it is marked as absent.
    """
    for name in _MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            if name.startswith(("jax._src.", "jaxlib.")):
                continue
            raise
    sys.modules.setdefault(_GPU_INTERPRETER, None)  # type: ignore[arg-type]
