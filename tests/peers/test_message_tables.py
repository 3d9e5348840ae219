"""The field tables that are shipped are those of Apache Kafka's clients."""

import pytest

from tests.peers import message_tables

pytestmark = pytest.mark.peers


def test_every_table_is_apache_kafkas() -> None:
    assert message_tables.differences() == []
