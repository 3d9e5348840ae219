"""A: one client must not stop the others, however expensive its request."""

from functools import partial

import pytest

from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from tests.attack import payloads
from tests.attack.cluster import PROBED_TOPIC
from tests.attack.long_arrays import long_arrays
from tests.attack.siege import Siege, side_by_side

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

INVALID_RECORD = 87
BOMB_RECORDS = 14_000_000
ALLOWED_RECORDS = 1_000_000
READERS = 3
REQUESTS_PER_READER = 2
RECOMPRESSED = {"compression.type": "lz4"}
FROM_THE_CONTROLLER = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
}
"""A controller's requests may be long."""


def test_a_bomb_of_14_million_records_to_a_topic_with_its_own_codec(siege: Siege) -> None:
    victim = siege.victim
    bomb = payloads.batch_of_many(BOMB_RECORDS)
    topic = victim.create_topic("bombed", RECOMPRESSED)

    def attack() -> None:
        answer = victim.connect().ask(payloads.produce(topic, bomb))
        assert answer, "the broker closed the connection"
        error, _ = payloads.produce_result(topic, answer)
        assert error == INVALID_RECORD, f"a batch of {BOMB_RECORDS:,} records is answered with error {error}"

    siege("A zstd bomb, 14 M records", attack)


def test_a_bomb_of_a_million_records_to_a_topic_with_its_own_codec(siege: Siege) -> None:
    victim = siege.victim
    requests = [
        payloads.produce(victim.create_topic(f"bombed-{number}", RECOMPRESSED), made)
        for number, made in enumerate(
            (payloads.batch_of_many(ALLOWED_RECORDS), payloads.batch_with_offsets(ALLOWED_RECORDS))
        )
    ]

    def ask(request: bytes) -> None:
        victim.connect().ask(request)

    def attack() -> None:
        side_by_side([partial(ask, request) for request in requests])

    siege("A zstd bomb, 1 M records", attack)


@pytest.fixture
def stored_bombs(siege: Siege) -> list[str]:
    """Topics with stored bombs: batches of a plain topic are not decoded on append."""
    bombs = (
        payloads.batch_of_many(BOMB_RECORDS),
        payloads.batch_of_many(BOMB_RECORDS, announced=ALLOWED_RECORDS),
        payloads.batch_of_many(ALLOWED_RECORDS),
    )
    stored = []
    for number, bomb in enumerate(bombs):
        topic = siege.victim.create_topic(f"stored-{number}")
        answer = siege.victim.ask(payloads.produce(topic, bomb))
        if payloads.produce_result(topic, answer)[0] == 0:
            stored.append(topic)
    return stored


def _read_again_and_again(siege: Siege, requests: list[bytes]) -> None:
    def read(number: int) -> None:
        connection = siege.victim.connect()
        for turn in range(REQUESTS_PER_READER):
            if connection.ask(requests[(number + turn) % len(requests)]) is None:
                connection = siege.victim.connect()

    side_by_side([partial(read, number) for number in range(READERS)])


def test_list_offsets_by_time_in_stored_bombs(siege: Siege, stored_bombs: list[str]) -> None:
    requests = [payloads.list_offsets(topic, payloads.LATE_MS) for topic in stored_bombs]
    siege("A ListOffsets in stored bombs", lambda: _read_again_and_again(siege, requests), deadline_s=60)


def test_old_fetches_of_stored_bombs(siege: Siege, stored_bombs: list[str]) -> None:
    requests = [payloads.old_fetch(topic) for topic in stored_bombs]
    siege("A Fetch v2 of stored bombs", lambda: _read_again_and_again(siege, requests), deadline_s=60)


def test_metadata_of_500_thousand_empty_names(siege: Siege) -> None:
    request = payloads.metadata_of_empty_names(500_000)
    siege("A Metadata, 500,000 names", lambda: _ask_and_leave(siege, request))


def test_metadata_of_25_million_empty_names(siege: Siege) -> None:
    request = payloads.metadata_of_empty_names(25_000_000)
    siege("A Metadata, 25 M names", lambda: _ask_and_leave(siege, request))


def _ask_and_leave(siege: Siege, request: bytes) -> None:
    """One client waits for the response, another disconnects before it arrives."""
    siege.victim.connect().ask(request)
    impatient = siege.victim.connect()
    impatient.send(request)
    impatient.cut()


def test_20_mb_of_tagged_fields_in_a_header(siege: Siege) -> None:
    requests = (payloads.repeated_header_tags(20_000_000), payloads.ascending_header_tags())

    def attack() -> None:
        for request in requests:
            siege.victim.connect().ask(request)

    siege("A header tags, 20 MB", attack)


def test_five_million_partitions_that_are_only_validated(siege: Siege) -> None:
    names = [f"wide-{number}" for number in range(100)]
    request = payloads.create_topics(names, 50_000, validate_only=True)
    siege("A CreateTopics, 100 × 50,000", lambda: siege.victim.connect().ask(request))


def test_long_arrays_in_every_request_of_clients(siege: Siege) -> None:
    """The bound on elements holds for every API: each of its arrays, nested ones too, gets as many elements as
    2 MB contain.
    """
    requests = [
        request
        for api_key, (_, version) in BROKER_VERSIONS.items()
        if api_key not in FROM_THE_CONTROLLER
        for request in long_arrays(api_key, version, 2_000_000)
    ]

    def attack() -> None:
        for request in requests:
            siege.victim.connect().ask(request)

    siege("A long arrays, every API", attack, deadline_s=60)


def test_an_honest_topic_is_served_as_ever(siege: Siege) -> None:
    """The bounds refuse no legitimate request."""
    victim = siege.victim
    topic = victim.create_topic("honest", RECOMPRESSED)

    def attack() -> None:
        offset = victim.produce(topic, payloads.batch(*(b"%d" % number for number in range(10_000))))
        assert victim.offset(topic, payloads.TIMESTAMP_MS) == offset
        assert len(victim.records(topic)) == 10_000
        assert victim.is_led(PROBED_TOPIC)

    siege("A honest batch of 10,000", attack)
