"""One pool of real workers for the whole room."""

import os
from collections.abc import Generator

import pytest

from maxkernel.config import Settings
from maxkernel.executor import LocalExecutor, local_executor

os.environ.setdefault("JAX_PLATFORMS", "cpu")


@pytest.fixture(scope="session")
def executor() -> Generator[LocalExecutor]:
    with local_executor(Settings(workers=1)) as pool:
        yield pool
