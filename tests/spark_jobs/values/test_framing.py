"""The framing bytes before a value."""

import pytest

from kafka_zk.spark_jobs.values.framing import Frame, ValueUndecodable, read_frame, read_message_path


def test_the_id_and_what_follows() -> None:
    assert read_frame(b"\0\0\0\1\2abc") == Frame(258, b"abc")
    assert read_frame(b"\0\xff\xff\xff\xff") == Frame(2**32 - 1, b"")


@pytest.mark.parametrize(
    ("value", "told"), [(b"", "only 0 bytes"), (b"\0\0\0\1", "only 4 bytes"), (b'{"a":1}', "first byte is 123, not 0")]
)
def test_without_an_id_it_says_so(value: bytes, told: str) -> None:
    with pytest.raises(ValueUndecodable, match=told):
        read_frame(value)


@pytest.mark.parametrize(
    ("payload", "path"),
    [(b"\0rest", (0,)), (b"\2\0rest", (0,)), (b"\2\4rest", (2,)), (b"\4\2\xac\2rest", (1, 150))],
)
def test_the_path_of_a_protobuf_message(payload: bytes, path: tuple[int, ...]) -> None:
    assert read_message_path(payload) == (path, b"rest")


@pytest.mark.parametrize("payload", [b"", b"\2", b"\xff\xff\xff\xff\xff\xff", b"\1", b"\xff\x7f"])
def test_a_path_that_is_none(payload: bytes) -> None:
    with pytest.raises(ValueUndecodable):
        read_message_path(payload)
