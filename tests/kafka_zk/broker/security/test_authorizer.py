"""The behaviour that all authorizers share."""

import sys

from kafka_zk.broker.security import authorizer
from kafka_zk.broker.security.authorizer import Resource, topic
from kafka_zk.protocol.topic_names import MAX_NAME_LENGTH


def test_the_resource_of_a_topic_is_made_once() -> None:
    name = "once"
    assert topic(name) == Resource("Topic", name) and topic(name) is topic("on" + name[2:])


def test_names_that_no_topic_can_have_are_not_kept() -> None:
    """A client may ask for 50,000 names of 32 KB, which would fill a broker's memory."""
    name = "x" * (MAX_NAME_LENGTH + 1)
    kept = sys.getrefcount(name)
    topic(name)
    assert sys.getrefcount(name) == kept
    assert topic(name) == Resource("Topic", name)


def test_the_number_of_topics_that_are_kept_is_bounded() -> None:
    for number in range(authorizer.MOST_TOPICS + 10):
        assert topic(f"bounded-{number}").name == f"bounded-{number}"
    first = topic("bounded-0")
    for number in range(authorizer.MOST_TOPICS):
        topic(f"others-{number}")
    assert topic("bounded-0") is not first and topic("bounded-0") == first
