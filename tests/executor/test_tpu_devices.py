"""Device files of TPUs, told from those of other devices."""

from pathlib import Path

import pytest

from maxkernel.executor.devices import tpu_device_files


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["null", "vfio/vfio", "accel/accel0"], []),
        (["accel0", "accel1"], ["accel0", "accel1"]),
        (["vfio/0", "vfio/vfio"], ["vfio/0", "vfio/vfio"]),
        (["vfio/0"], ["vfio/0"]),
    ],
)
def test_device_files(tmp_path: Path, files: list[str], found: list[str]) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [str(p.relative_to(tmp_path)) for p in tpu_device_files(tmp_path)] == found
