"""Complaint 27: monitoring that silently stops working because a four-letter word is not in the whitelist."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from kafka_zk.embedded.health import Health, NoAnswer, NotAllowed, ask, probe
from kafka_zk.embedded.ports import AnswerTooLong, four_letter_word, free_port
from kafka_zk.testing.plugin import MakeZooKeeper

REFUSAL = b"srvr is not executed because it is not in the whitelist.\n"
SESSION = struct.pack(">iiiqi16s?", 37, 0, 4000, 77, 16, bytes(16), False)
NO_SESSION = struct.pack(">iiiqi16s?", 37, 0, 0, 0, 16, bytes(16), False)


@contextlib.contextmanager
def server(to_words: bytes, to_connects: bytes) -> Iterator[int]:
    """A server that answers every four-letter word and every connect request with the same bytes; yields its port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.sendall(to_words if connection.recv(4).isalpha() else to_connects)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):  # end the stream without a reset
                        pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


@pytest.mark.parametrize(
    ("to_words", "to_connects", "report"),
    [
        (b"Zookeeper version: 3.9\nMode: follower\nNode count: 5\n", b"", (Health.SERVING, "follower", True)),
        (b"This ZooKeeper instance is not currently serving requests\n", b"", (Health.NOT_SERVING, None, True)),
        (REFUSAL, SESSION, (Health.SERVING, None, False)),
        (REFUSAL, NO_SESSION, (Health.NOT_SERVING, None, False)),
        (REFUSAL, b"", (Health.NOT_SERVING, None, False)),
    ],
)
def test_complaint_27_a_refusal_is_a_state_of_its_own(
    to_words: bytes, to_connects: bytes, report: tuple[Health, str | None, bool]
) -> None:
    with server(to_words, to_connects) as port:
        assert probe(port) == report


def test_complaint_27_nobody_there_is_down() -> None:
    port = free_port()
    assert probe(port) == (Health.DOWN, None, True)
    with pytest.raises(NoAnswer, match=f"no response to ruok from 127.0.0.1:{port}"):
        ask("ruok", port)


@pytest.mark.integration
def test_complaint_27_a_real_server_that_does_not_allow_the_word(make_zookeeper: MakeZooKeeper) -> None:
    zookeeper = make_zookeeper()
    with pytest.raises(NotAllowed, match="runs but does not allow mntr"):
        ask("mntr", zookeeper.port)
    assert probe(zookeeper.port) == (Health.SERVING, "standalone", True)


def test_an_answer_without_an_end_is_not_read_to_its_end() -> None:
    long = b"x" * 5_000_000
    with server(long, SESSION) as port, pytest.raises(AnswerTooLong, match="more than 4194304 bytes"):
        ask("wchc", port)
    with server(long, SESSION) as port:
        assert len(four_letter_word("wchc", port, most_bytes=len(long))) == len(long)
        with pytest.raises(AnswerTooLong, match="more than 4999999 bytes"):
            four_letter_word("wchc", port, most_bytes=len(long) - 1)
    with server(long, SESSION) as port:
        assert probe(port).health is Health.DOWN, "this server is no ZooKeeper"
