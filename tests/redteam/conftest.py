"""One pool of real workers and one judge for the whole room."""

import os
from collections.abc import Generator

import pytest
from redteam_court import Court

from maxkernel.config import Settings
from maxkernel.executor import local_executor
from maxkernel.judge import Judge
from maxkernel.targets import get_target

os.environ.setdefault("JAX_PLATFORMS", "cpu")


@pytest.fixture(scope="session")
def court() -> Generator[Court]:
    settings = Settings(workers=1, capture_seconds=10.0, check_seconds=15.0)
    with local_executor(settings) as executor:
        yield Court(executor, Judge(executor, get_target("v6e"), settings), settings)
