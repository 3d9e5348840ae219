"""Images for the container tests, built on first use. Without an engine these tests fail, because the user requested
them.
"""

import pytest

from kafka_zk.testing.containers import why_no_engine
from tests.containers import images


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    reason = why_no_engine()
    assert reason is None, f"{reason}; `make test-containers` starts one"


@pytest.fixture(scope="session")
def zookeeper_image() -> str:
    return images.zookeeper_image()


@pytest.fixture(scope="session")
def broker_image() -> str:
    """The image that ``tests.containers.run`` has built before the tests; otherwise, it is built here once."""
    return images.BROKER if images.exists(images.BROKER) else images.broker_image()
