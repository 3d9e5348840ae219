"""Which of several topics of the same name an offset in Spark's checkpoint belongs to."""

import json

from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.source.stream_offsets import StreamOffsets

T0, T1 = TopicPartition("t", 0), TopicPartition("u", 1)
NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,8}", fullmatch=True)


@given(st.dictionaries(st.builds(TopicPartition, NAMES, st.integers(0, 99)), st.integers(0, 2**63 - 1)), st.data())
def test_through_json_and_back(offsets: dict[TopicPartition, int], data: st.DataObject) -> None:
    topics = sorted({tp.topic for tp in offsets})
    ids = {name: data.draw(st.sampled_from(["id:a", "czxid:7"])) for name in topics if data.draw(st.booleans())}
    whole = StreamOffsets(offsets, ids)
    assert StreamOffsets.of(json.loads(json.dumps(whole.document()))) == whole


def test_a_checkpoint_of_an_earlier_version_has_no_ids() -> None:
    old = {"t": {"0": 23}}
    assert StreamOffsets.of(old) == StreamOffsets({T0: 23}, {})
    assert StreamOffsets({T0: 23}, {}).document() == old
    assert StreamOffsets.of(old).recreated({"t": "id:a"}) == set()


def test_which_topics_were_created_again() -> None:
    read = StreamOffsets({T0: 23, T1: 5}, {"t": "id:a", "u": "czxid:7"})
    assert read.recreated({"t": "id:a", "u": "czxid:7"}) == set()
    assert read.recreated({"t": "id:b", "u": "czxid:9"}) == {"t", "u"}
    assert read.recreated({"t": "czxid:9", "u": "id:a"}) == set(), "brokers were upgraded"
    assert read.recreated({}) == set(), "a topic that is not there is judged by its ends"
