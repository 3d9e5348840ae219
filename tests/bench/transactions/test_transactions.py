"""The bench of transactions sends valid requests of the APIs."""

from typing import Any

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.storage.records.record_batch import check_crc, iter_batches
from tests.bench.partition_wire import Wire
from tests.bench.transactions.wire import TransactionalProducer, init_body


class _Heard(Wire):
    """Keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def send(self, api_key: int, version: int, body: bytes) -> None:
        self.requests.append((api_key, version, body))


def test_its_requests_are_those_of_a_transaction() -> None:
    coordinator, leaders = _Heard(), [_Heard(), _Heard()]
    producer = TransactionalProducer(coordinator, "id", "t", [(leaders[0], [0, 2]), (leaders[1], [1])], 6)
    producer.start(7, 1)
    producer.send_add()
    producer.send_records()
    producer.send_records()
    producer.send_commit()
    (_, version, body), (_, end_version, end_body) = coordinator.requests
    added = codec.decode_request(ApiKey.ADD_PARTITIONS_TO_TXN, version, body)
    assert (added.v3_and_below_transactional_id, added.v3_and_below_producer_id) == ("id", 7)
    assert [list(each.partitions) for each in added.v3_and_below_topics] == [[0, 2, 1]]
    ended = codec.decode_request(ApiKey.END_TXN, end_version, end_body)
    assert (ended.transactional_id, ended.producer_id, ended.producer_epoch, ended.committed) == ("id", 7, 1, True)
    for leader, partitions in zip(leaders, ([0, 2], [1]), strict=True):
        for number, (_, produce_version, produce_body) in enumerate(leader.requests):
            request = codec.decode_request(ApiKey.PRODUCE, produce_version, produce_body)
            assert [each.index for each in request.topic_data[0].partition_data] == partitions
            for partition in request.topic_data[0].partition_data:
                [(position, header)] = iter_batches(partition.records)
                assert (header.base_sequence, header.record_count, header.is_transactional) == (2 * number, 2, True)
                check_crc(partition.records, position, header)


def test_a_producer_id_is_asked_for() -> None:
    asked = codec.decode_request(ApiKey.INIT_PRODUCER_ID, 1, init_body("id"))
    assert (asked.transactional_id, asked.transaction_timeout_ms) == ("id", 60_000)
