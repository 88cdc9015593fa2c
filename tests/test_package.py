"""The package's own names."""

import subprocess
import sys

SCRIPT = """
import sys, maxkernel
first = maxkernel.judge
import maxkernel.judge
from maxkernel.judge import Judge
assert maxkernel.judge is first and callable(first) and callable(maxkernel.optimize)
assert Judge.__module__.startswith("maxkernel.judge") and "jax" not in sys.modules
"""


def test_the_judge_is_a_function_and_a_package() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
