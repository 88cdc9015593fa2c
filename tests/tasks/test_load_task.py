"""Loading tasks: the three formats, and every way a path can disappoint."""

from pathlib import Path

import pytest

from maxkernel.errors import TaskError, UsageError
from maxkernel.tasks import load_task

OURS = "import jax.numpy as jnp\ndef reference(x):\n    return x\ndef inputs(key):\n    return ()\n"
JAXBENCH = "CONFIG = {}\ndef create_inputs(dtype=None):\n    ...\ndef workload(x):\n    ...\n"
GOOGLE = "def computation(x):\n    return x\n"
SHEET = """\
task_id: the_task
description: something
input_gen_code: |-
  def get_inputs(dtype=jnp.bfloat16):
      return [jnp.zeros((2,), dtype)], []
"""


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_DOT_", ".")).write_text(text)
    return folder


def test_our_format(tmp_path: Path) -> None:
    task = load_task(write(tmp_path, norm_DOT_py=OURS) / "norm.py")
    assert (task.name, task.format, task.entry) == ("norm", "maxkernel", "norm.py")
    assert task.files["norm.py"] == OURS


def test_jaxbench_file_and_folder(tmp_path: Path) -> None:
    folder = write(tmp_path / "12p_RMSNorm", baseline_DOT_py=JAXBENCH)
    assert load_task(folder / "baseline.py").format == "jaxbench"
    task = load_task(folder)
    assert (task.name, task.format, task.entry) == ("12p_RMSNorm", "jaxbench", "baseline.py")


def test_maxkernel_folder_takes_inputs_from_the_sheet(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", reference_DOT_py=GOOGLE, kernel_task_DOT_yaml=SHEET)
    task = load_task(folder)
    assert (task.name, task.format, task.entry) == ("the_task", "maxkernel-google", "reference.py")
    namespace: dict[str, object] = {}
    exec(task.files["inputs.py"], namespace)
    assert callable(namespace["get_inputs"])
    assert load_task(folder / "reference.py").digest == task.digest


def test_digest_follows_the_text(tmp_path: Path) -> None:
    first = load_task(write(tmp_path / "a", t_DOT_py=OURS) / "t.py")
    same = load_task(write(tmp_path / "b", t_DOT_py=OURS) / "t.py")
    other = load_task(write(tmp_path / "c", t_DOT_py=OURS + "\n") / "t.py")
    assert first.digest == same.digest != other.digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def reference(x:\n", "line 1"),
        ("def reference(x):\n    return x\n", "`inputs`"),
        ("x = 1\n", "does not define"),
    ],
)
def test_no_task(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        load_task(write(tmp_path, t_DOT_py=text) / "t.py")


def test_missing_file_foreign_file_and_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load_task(tmp_path / "none.py")
    with pytest.raises(UsageError, match="not a Python file"):
        load_task(write(tmp_path, notes_DOT_txt="hello") / "notes.txt")
    with pytest.raises(UsageError, match=r"reference\.py"):
        load_task(write(tmp_path / "empty"))
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="UTF-8"):
        load_task(tmp_path / "binary.py")


def test_broken_sheet(tmp_path: Path) -> None:
    folder = write(tmp_path, reference_DOT_py=GOOGLE, kernel_task_DOT_yaml="a: [1")
    with pytest.raises(TaskError, match="not valid YAML"):
        load_task(folder)
    write(tmp_path, kernel_task_DOT_yaml="task_id: x")
    with pytest.raises(TaskError, match="`get_inputs`"):
        load_task(folder)
