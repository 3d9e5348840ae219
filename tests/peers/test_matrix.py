"""Every client writes, every client reads: keys, values, headers, timestamps and offsets byte for byte."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tests.peers import jars
from tests.peers.clients import ours
from tests.peers.clients.base import Consumer, Producer, Read
from tests.peers.clients.java_clients import ConsoleConsumer, ConsoleProducer, JavaConsumer, JavaDriver, JavaProducer
from tests.peers.clients.kcat import (
    KcatConsumer,
    KcatProducer,
    OldKcatConsumer,
    OldKcatProducer,
)
from tests.peers.clients.librdkafka import ConfluentConsumer, ConfluentProducer
from tests.peers.clients.old_clients import (
    OldConsumer,
    OldDriver,
    OldProducer,
    old_records,
    timestamps_by_client,
    timestamps_unknown,
)
from tests.peers.clients.python_clients import (
    AiokafkaConsumer,
    AiokafkaProducer,
    KafkaPythonConsumer,
    KafkaPythonProducer,
)
from tests.peers.matrix import Matrix, expected_view
from tests.peers.records import differences
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_JAVA_VERSIONS = (jars.ORACLE_VERSION, jars.NEWEST_VERSION)
_CONSOLES = tuple(f"console-{version}" for version in _JAVA_VERSIONS)
_TODAY = (
    ours.NAME,
    "kcat",
    "confluent-kafka",
    "kafka-python",
    "aiokafka",
    *(f"java-{version}" for version in _JAVA_VERSIONS),
)
_OLD_PRODUCERS = (
    *(f"{api}-{version}" for version in jars.LEGACY_VERSIONS for api in ("scala", "java")),
    "kcat-as-0.9.0",
)
_OLD_CONSUMERS = (
    "simple-0.8.2.2-fetch-0",
    *(f"simple-0.10.2.2-fetch-{version}" for version in range(4)),
    "kcat-as-0.9.0",
)
#: The participants for each codec. zstd came with magic 2 (test_old_clients.py has the errors of old clients);
#: the console tools are the Java clients of the same version in a JVM of their own, so two codecs are enough.
_NAMES = {
    "none": ((*_TODAY, *_CONSOLES, *_OLD_PRODUCERS), (*_TODAY, *_CONSOLES, *_OLD_CONSUMERS)),
    "gzip": ((*_TODAY, *_OLD_PRODUCERS), (*_TODAY, *_OLD_CONSUMERS)),
    "snappy": ((*_TODAY, *_OLD_PRODUCERS), (*_TODAY, *_OLD_CONSUMERS)),
    "lz4": ((*_TODAY, *_CONSOLES, *_OLD_PRODUCERS), (*_TODAY, *_CONSOLES, *_OLD_CONSUMERS)),
    "zstd": (_TODAY, _TODAY),
}


@pytest.fixture(scope="module")
def producers(java_drivers: dict[str, JavaDriver], old_drivers: dict[str, OldDriver]) -> dict[str, Producer]:
    """All producer clients by name."""
    old_scala = dict(zip(jars.LEGACY_VERSIONS, (timestamps_unknown, timestamps_by_client), strict=True))
    old_java = dict(zip(jars.LEGACY_VERSIONS, (timestamps_unknown, old_records), strict=True))
    clients: list[Producer] = [
        ours.OurProducer(),
        KcatProducer(),
        ConfluentProducer(),
        KafkaPythonProducer(),
        AiokafkaProducer(),
        *map(JavaProducer, java_drivers.values()),
        *map(ConsoleProducer, _JAVA_VERSIONS),
        *(OldProducer(driver, "scala", old_scala[version]) for version, driver in old_drivers.items()),
        *(OldProducer(driver, "java", old_java[version]) for version, driver in old_drivers.items()),
        OldKcatProducer(),
    ]
    return {client.name: client for client in clients}


@pytest.fixture(scope="module")
def consumers(java_drivers: dict[str, JavaDriver], old_drivers: dict[str, OldDriver]) -> dict[str, Consumer]:
    """All consumer clients by name."""
    clients: list[Consumer] = [
        ours.OurReader(),
        KcatConsumer(),
        ConfluentConsumer(),
        KafkaPythonConsumer(),
        AiokafkaConsumer(),
        *map(JavaConsumer, java_drivers.values()),
        *map(ConsoleConsumer, _JAVA_VERSIONS),
        OldConsumer(old_drivers[jars.MAGIC_0_VERSION], 0),
        *(OldConsumer(old_drivers[jars.MAGIC_1_VERSION], fetch_version) for fetch_version in range(4)),
        OldKcatConsumer(),
    ]
    return {client.name: client for client in clients}


@pytest.fixture(scope="module")
def matrices(target: Target, producers: dict[str, Producer]) -> Callable[[str], Matrix]:
    """Codec -> a partition to which all producers that support the codec have written once."""

    @functools.cache
    def written(compression: str) -> Matrix:
        shared = Matrix(target, compression, [producers[name] for name in _NAMES[compression][0]])
        shared.write_all()
        return shared

    return written


_CELLS = [
    (compression, producer, consumer)
    for compression, (writers, readers) in _NAMES.items()
    for producer in writers
    for consumer in readers
]


@pytest.mark.parametrize(("compression", "producer", "consumer"), _CELLS)
def test_what_one_client_writes_another_reads_byte_for_byte(
    matrices: Callable[[str], Matrix], consumers: dict[str, Consumer], compression: str, producer: str, consumer: str
) -> None:
    """Keys, values, headers, timestamps and offsets of one producer's records, as one consumer sees them."""
    matrix = matrices(compression)
    written = matrix.slice_of(producer)
    client = consumers[consumer]
    found = matrix.read_by(client)[written.first_offset : written.first_offset + len(written.records)]
    assert differences(expected_view(written, client, found), found) == ""


def _middle(matrix: Matrix) -> int:
    """An offset inside a batch, followed by many records."""
    return matrix.record_count // 2 + 3


_STARTING = [
    (compression, consumer)
    for compression, (_, readers) in _NAMES.items()
    for consumer in readers
    if not consumer.startswith("console")
]


@pytest.mark.parametrize(("compression", "consumer"), _STARTING)
@pytest.mark.parametrize("start", [_middle, lambda matrix: matrix.record_count - 1], ids=["middle", "last"])
def test_reading_starts_exactly_at_the_offset_asked_for(
    matrices: Callable[[str], Matrix],
    consumers: dict[str, Consumer],
    compression: str,
    consumer: str,
    start: Callable[[Matrix], int],
) -> None:
    """The client assigns an offset in the middle of a batch: it gets no earlier record, and all later ones."""
    matrix = matrices(compression)
    client = consumers[consumer]
    offset = start(matrix)
    found = client.read(Read(matrix.target.bootstrap, matrix.topic, 0, offset, matrix.record_count - offset))
    assert differences(matrix.read_by(client)[offset:], found) == ""
