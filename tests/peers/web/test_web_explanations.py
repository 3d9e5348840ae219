"""The page's references to Apache's code are right: each named file is a class of Kafka's or ZooKeeper's jars, with the
named method."""

import re
from zipfile import ZipFile

import pytest

from kafka_zk.recorder.recording.entries import CHANGES, SESSION_BEGAN, SESSION_ENDED
from kafka_zk.recorder.timeline.event_codec import EVENT_TYPES
from kafka_zk.recorder.web.explanations import explanation
from tests.peers import jars

pytestmark = pytest.mark.peers

NAMED = sorted({told.kafkas for kind in (*CHANGES, SESSION_BEGAN, SESSION_ENDED, *EVENT_TYPES)
                if (told := explanation(kind)) is not None and told.kafkas})  # fmt: skip
JARS = {"org/apache/zookeeper/": "zookeeper-[0-9]*.jar", "org/apache/kafka/clients/": "kafka-clients-[0-9]*.jar"}
PLACE = re.compile(r"\S*/src/main/(?:scala|java)/(\S+)\.(?:scala|java)(?:: (\w+))?(?: \(until 1\.1\))?")


@pytest.mark.parametrize("named", NAMED)
def test_it_is_there(named: str) -> None:
    found = PLACE.fullmatch(named)
    assert found is not None
    name, method = found.groups()
    jar = next((jar for package, jar in JARS.items() if name.startswith(package)), "kafka_*.jar")
    version = jars.MAGIC_1_VERSION if "until" in named else jars.ORACLE_VERSION
    [file] = jars.jars(version).glob(jar)
    with ZipFile(file) as classes:
        content = classes.read(f"{name}.class")
    assert method is None or method.encode() in content, "its constant pool has the names of its methods"
