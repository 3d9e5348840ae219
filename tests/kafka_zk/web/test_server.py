"""What browsers that read slowly cost."""

from kafka_zk.web.server import _Listener


class Request:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.written.append(line)


def test_a_slow_browser_gets_the_latest_news_only() -> None:
    request = Request()
    listener = _Listener(request)
    listener.tell(b"1")
    listener.pauseProducing()
    for number in range(2, 1_000):
        listener.tell(b"%d" % number)
    listener.resumeProducing()
    listener.tell(b"1000")
    assert request.written == [b"1", b"999", b"1000"]
