"""Bad input: one clear message, the right exit status, no traceback, a whole run file."""

import json
from typing import Any

import pytest

USES = [
    ((), 2, "Missing command"),
    (("optimize",), 2, "TASK"),
    (("optimize", "none.py"), 2, "does not exist"),
    (("optimize", "norm.py", "--target", "v9"), 2, "v6e"),
    (("optimize", "norm.py", "--budget-candidates", "0"), 2, "at least 1"),
    (("optimize", "norm.py", "--budget-candidates", "many"), 2, "integer"),
    (("optimize", "norm.py", "--budget-seconds", "-1"), 2, "more than 0"),
    (("judge", "norm.py", "none.py"), 2, "does not exist"),
    (("judge", "norm.py", "kernel.py", "--tunable", "block_rows"), 2, "NAME=VALUE"),
    (("judge", "norm.py", "kernel.py", "--tunable", "rows=1"), 2, "block_rows"),
    (("judge", "kernel.py", "norm.py"), 2, "not a task"),
    (("show", "nothing"), 2, "no run"),
    (("resume", "nothing"), 2, "no run"),
    (("profile", "norm.py", "none.py"), 2, "does not exist"),
]


@pytest.mark.parametrize(("arguments", "status", "said"), USES, ids=lambda v: str(v)[:40])
def test_wrong_use(cli: Any, arguments: tuple[str, ...], status: int, said: str) -> None:
    got, out, err = cli.run(*arguments)
    assert (got, out) == (status, "")
    assert said in err
    assert "Traceback" not in err
    assert err.startswith("error: ")


HEAD = "import jax, jax.numpy as jnp\n"
ONE_INPUT = "def inputs(key):\n    return jax.random.normal(key, (64, 128))\n"

TASKS = [
    ("raise ValueError('no luck')\n" + ONE_INPUT + "def reference(x): return x\n", "no luck"),
    ("import not_there\n" + ONE_INPUT + "def reference(x): return x\n", "not_there"),
    (ONE_INPUT + "def reference(x):\n    raise RuntimeError('bad day')\n", "bad day"),
    (ONE_INPUT + "def reference(x, y): return x\n", "reference"),
    ("def inputs(key): return ('text', None)\ndef reference(x, y): return x\n", "array"),
    ("def inputs(key): return jnp.zeros((8, 8), jnp.complex64)\ndef reference(x): return x\n",
     "complex64"),
    ("def inputs(key):\n    import numpy as np\n    return np.zeros((8, 8), np.float64)\n"
     "def reference(x): return x\n", "float64"),
    ("def inputs(key): return jnp.zeros((0, 8))\ndef reference(x): return x\n", "no elements"),
    ("def inputs(key): return jnp.zeros((1 << 17, 1 << 14), jnp.bfloat16)\n"
     "def reference(x): return x + 1\n", "check_inputs"),
    (ONE_INPUT + "def reference(x): return {'a': x}\n", "tuple"),
    (ONE_INPUT + "def reference(x):\n    if x[0, 0] > 0: return x\n    return -x\n", "traced"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), TASKS, ids=[said for _, said in TASKS])
def test_task_at_fault(cli: Any, text: str, said: str) -> None:
    cli.write("bad.py", HEAD + text)
    got, out, err = cli.run("judge", "bad.py", "kernel.py")
    assert (got, out) == (2, ""), err
    assert said in err
    assert "Traceback" not in err


def test_errors_in_json(cli: Any) -> None:
    status, document = cli.json("judge", "norm.py", "none.py")
    assert (status, document["exit_status"]) == (2, 2)
    assert "does not exist" in document["error"]


def test_debug_shows_the_traceback(cli: Any) -> None:
    _, _, err = cli.run("judge", "norm.py", "none.py", "--debug")
    assert "Traceback" in err


def test_an_environment_fault(cli: Any) -> None:
    cli.environment["MAXKERNEL_WORKER_PYTHON"] = "/usr/bin/false"
    status, _, err = cli.run("judge", "norm.py", "kernel.py")
    assert status == 3
    assert "Traceback" not in err
    status, out, _ = cli.run("doctor", "--json")
    assert status == 3
    assert any(not f["ok"] for f in json.loads(out)["findings"])


def test_a_bad_setting(cli: Any) -> None:
    cli.environment["MAXKERNEL_WORKERS"] = "zero"
    status, _, err = cli.run("judge", "norm.py", "kernel.py")
    assert status == 2
    assert "workers" in err


NO_NAMESPACES = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'


def test_no_sandbox_is_refused_unless_asked_for(cli: Any) -> None:
    """Where the kernel allows no further namespaces: exit 3 and one line on what to do."""
    cli.prefix = ("unshare", "--user", "--map-root-user", "sh", "-c", NO_NAMESPACES, "sh")
    status, _, err = cli.run("judge", "norm.py", "kernel.py")
    assert status == 3, err
    assert "bwrap" in err
    assert "--unsafe-no-sandbox" in err
    status, verdict = cli.json("judge", "norm.py", "kernel.py", "--unsafe-no-sandbox")
    assert (status, verdict["evaluation"]["sandbox"]) == (0, "none")


HOSTILE = {
    "sleeps": ("import time\ntime.sleep(1000)\n", "forbidden"),
    "exits": ("raise SystemExit(0)\n", "crash"),
    "reads files": ("open('/etc/passwd').read()\n", "forbidden"),
    "forks": ("import os\nwhile True: os.fork()\n", "forbidden"),
    "loops": ("while True: pass\n", "timeout"),
    "allocates": ("x = bytearray(100 << 30)\n", "memory"),
    "prints": ("print('PERF_METRICS 9999')\n" * 1000, None),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_candidates(cli: Any, name: str) -> None:
    """What the source gate lets through meets the sandbox; see tests/worker for the rest."""
    text, kind = HOSTILE[name]
    cli.environment["MAXKERNEL_CAPTURE_SECONDS"] = "5"
    source = (cli.folder / "kernel.py").read_text()
    cli.write("hostile.py", text + source)
    status, verdict = cli.json("judge", "norm.py", "hostile.py")
    failure = verdict["evaluation"]["failure"]
    assert (status, failure and failure["kind"]) == (0 if kind is None else 1, kind)
