"""Work on whole batches that helper processes do."""

from kafka_zk.storage.log.batch_work import UpConvertWork
from kafka_zk.storage.records.legacy_message_set import encode_message
from kafka_zk.storage.records.record_batch import read_header
from tests.storage.helpers import T0

MESSAGES = [encode_message(offset, 1, 0, T0, None, b"v") for offset in range(2)]


def converted(data: bytes) -> bytes:
    return bytes(UpConvertWork(data, None).run(lambda *_: None))


def test_the_whole_messages_of_a_set_become_a_batch_and_a_cut_one_is_left_out() -> None:
    whole = converted(b"".join(MESSAGES))
    assert converted(b"".join([*MESSAGES, MESSAGES[0][:-1]])) == whole
    assert read_header(whole).record_count == 2


def test_of_a_set_without_a_whole_message_nothing_is_left() -> None:
    assert converted(b"") == converted(MESSAGES[0][:-1]) == b""
