"""Numbers, as Kafka's serializers write them."""

import pickle
import struct

import pytest

from kafka_zk.spark_jobs.values.framing import ValueUndecodable
from kafka_zk.spark_jobs.values.numbers import NUMBERS, NumberDecoder


@pytest.mark.parametrize(
    ("name", "data", "number"),
    [
        ("short", b"\xff\xfe", -2),
        ("int", b"\0\0\1\0", 256),
        ("long", b"\x80" + bytes(7), -(2**63)),
        ("float", struct.pack(">f", 0.5), 0.5),
        ("double", struct.pack(">d", -0.1), -0.1),
    ],
)
def test_a_number_of_each_type(name: str, data: bytes, number: float) -> None:
    decoder: NumberDecoder = pickle.loads(pickle.dumps(NumberDecoder(name)))
    assert decoder.decode(data) == number
    for other in (data[1:], data + b"\0", b""):
        told = f"^{len(other)} bytes are not a valid {name}, which has {len(data)}$"
        with pytest.raises(ValueUndecodable, match=told):
            decoder.decode(other)


def test_their_types() -> None:
    types = [NumberDecoder(name).columns.simpleString() for name in NUMBERS]
    assert types == ["smallint", "int", "bigint", "float", "double"]
