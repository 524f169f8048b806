"""Settings for tests of worlds whose agents have small networks."""

import pytest

from tests.core.small import one_thread


@pytest.fixture(scope="package", autouse=True)
def _one_thread():
    with one_thread():
        yield
