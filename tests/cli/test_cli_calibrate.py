"""`maxkernel calibrate` where there is no TPU."""

from typing import Any

import pytest

from maxkernel.executor.devices import tpu_device_files


@pytest.mark.skipif(bool(tpu_device_files()), reason="this machine may have a TPU")
def test_without_a_tpu_it_says_so_in_one_line(cli: Any) -> None:
    status, out, err = cli.run("calibrate")
    assert status == 3
    assert out == ""
    first, *rest = err.splitlines()
    assert "this machine has no TPU" in first
    assert all(line.startswith("  try:") for line in rest)
    status, answer = cli.json("calibrate")
    assert status == answer["exit_status"] == 3
