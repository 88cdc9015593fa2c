"""TPU generations: capacities, peak rates and clocks, each with its source.

Capacities and peak rates are those of jax's own chip tables (`jax.experimental.pallas.tpu
.get_tpu_info_for_chip`, jax 0.10.2; a test compares them), multiplied by the cores of one jax
device. Clocks are arithmetic from peak rate and MXU size (see `schedule/`): v4 1.05 GHz,
v5e 1.50, v5p 1.75, v6e 1.75 (confirmed by ten published GEMM rows to 0.3 %); v7x 1.82 GHz in
effect (fitted on published MXU-bound rows; the peak implies 2.2).
"""

from __future__ import annotations

import difflib

import msgspec

from maxkernel.errors import UsageError


class Target(msgspec.Struct, frozen=True):
    """One jax device of a TPU generation. Rates are per device, in operations or bytes a second."""

    name: str
    device_kind: str
    topology: str
    """Name for `jax.experimental.topologies.get_topology_desc`."""
    cores: int
    """TensorCores that one jax device spans."""
    vmem_bytes: int
    """Per core."""
    smem_bytes: int
    hbm_bytes: int
    hbm_bandwidth: float
    bf16_flops: float
    int8_ops: float
    """0 where the MXU has no int8 mode."""
    fp8_flops: float
    clock_hz: float
    mxu_size: int
    mxus: int
    """Per core."""
    delay_slots: int
    """Branch delay slots of the scalar core (schedule format)."""
    topology_options: tuple[tuple[str, str], ...] = ()
    """More arguments of `get_topology_desc`; without them a v4 device is one TensorCore."""


_TABLE = (
    Target("v4", "TPU v4", "v4:2x2x1", 2, 16777216, 1048576, 34400000000, 1.23e12,
           2.75e14, 0.0, 0.0, 1.05e9, 128, 4, 1, (("chip_config_name", "megacore"),)),
    Target("v5e", "TPU v5 lite", "v5e:2x2", 1, 134217728, 1048576, 17200000000, 8.2e11,
           1.97e14, 3.94e14, 0.0, 1.50e9, 128, 4, 4),
    Target("v5p", "TPU v5", "v5p:2x2x1", 2, 67108864, 1048576, 103000000000, 2.46e12,
           4.59e14, 9.18e14, 0.0, 1.75e9, 128, 4, 4),
    Target("v6e", "TPU v6 lite", "v6e:2x2", 1, 134217728, 1048576, 34400000000, 1.64e12,
           9.2e14, 1.84e15, 9.2e14, 1.75e9, 256, 2, 4),
    Target("v7x", "TPU7x", "tpu7x:2x2x1", 1, 67108864, 1048576, 103000000000, 3.7e12,
           1.155e15, 0.0, 2.3e15, 1.82e9, 256, 2, 6),
)  # fmt: skip

TARGETS: dict[str, Target] = {target.name: target for target in _TABLE}


def get_target(name: str) -> Target:
    """The target of that name; raises UsageError with the known names otherwise."""
    target = TARGETS.get(name.lower())
    if target is not None:
        return target
    close = difflib.get_close_matches(name.lower(), TARGETS, 1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise UsageError(f"unknown target {name!r}; known targets: {', '.join(TARGETS)}.{hint}")


def peak_rate(target: Target, dtype: str) -> float:
    """Peak MXU operations a second for operands of `dtype` (f32 runs as bf16 passes: one pass)."""
    if dtype in ("int8", "uint8") and target.int8_ops:
        return target.int8_ops
    if dtype.startswith("float8") and target.fp8_flops:
        return target.fp8_flops
    return target.bf16_flops
