"""What the driver refuses before it asks anybody."""

import pytest

from kafka_zk.spark_jobs.errors import OptionError
from kafka_zk.spark_jobs.source.driver import Driver
from kafka_zk.spark_jobs.source.options import parse


@pytest.mark.parametrize("group", ["a/b", "..", "a b"])
def test_a_group_that_no_consumer_could_have_is_refused(group: str) -> None:
    """It would be a path to other znodes, or the offsets of a group that nobody can join."""
    options = {"subscribe": "t", "zookeeper.connect": "127.0.0.1:1", "group.id": group}
    with pytest.raises(OptionError, match=r"group.id: .* is not valid: use letters"):
        Driver(parse(options))
