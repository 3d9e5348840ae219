"""A page that is shared: who reaches it, and what forty viewers cost."""

import gzip
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from kafka_zk.cli.cluster.web_sharing import share_address
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.embedded.process import tied
from kafka_zk.recorder.recording.recording import Recording
from tests.kafka_zk.recorder.web.large_cluster import large_cluster
from tests.kafka_zk.recorder.web.test_presentation import LIVE

pytestmark = pytest.mark.integration

TIMEOUT_S = 60
VIEWERS = 40
MOMENTS = 8
RATIO = 12
"""The bound on the processor time for forty viewers, relative to that for one. If each view were computed for each
viewer, it would be 40 times."""
PATIENCE_S = 5


class Server:
    """A ``kafka-zk web`` of a recording."""

    def __init__(self, process: "subprocess.Popen[str]", told: dict[str, Any]) -> None:
        self.pid = process.pid
        self.told = told

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_kb(self) -> int:
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1])


@contextmanager
def serving(recording: Path, *options: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "kafka_zk", "web", str(recording), "--port", "0", "--json", *options]
    with subprocess.Popen(tied(command), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Server(process, json.loads(process.stdout.readline()))
        finally:
            process.terminate()


@pytest.fixture
def address() -> str:
    """The address of this machine that reaches others."""
    try:
        return share_address(None).ip
    except CommandFailed:
        pytest.skip("this machine has no network")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    recording = Recording(tmp_path / "recorded.sqlite")
    recording.add([], large_cluster(20, 10, 20))
    recording.close()
    return tmp_path / "recorded.sqlite"


class Link:
    """A link that was printed: its server, and its tokens."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 0
        self.tokens = dict(parse_qsl(parts.fragment))

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), TIMEOUT_S)

    def get(self, question: str, **values: Any) -> bytes:
        return self.send("GET", f"/api-{question}?{urlencode({**values, 'token': self.tokens['token']})}")

    def post(self, path: str, document: Any, token: str) -> bytes:
        return self.send("POST", path, json.dumps(document), f"X-Kafka-Zk-Token: {token}\r\n")

    def send(self, method: str, path: str, body: str = "", headers: str = "") -> bytes:
        """The whole response."""
        with self.connect() as connection:
            length = f"Content-Length: {len(body)}\r\n" if body else ""
            head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nAccept-Encoding: gzip\r\n"
            connection.sendall(f"{head}{headers}{length}\r\n{body}".encode())
            return b"".join(iter(lambda: connection.recv(65_536), b""))


class Viewer:
    """A viewer's browser: it follows the presenter, and asks for what the page draws."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._news = link.connect()
        request = f"GET /api-news?token={link.tokens['token']} HTTP/1.1\r\nHost: {link.host}:{link.port}\r\n\r\n"
        self._news.sendall(request.encode())
        self._heard = b""
        self.received_bytes = 0

    def close(self) -> None:
        self._news.close()

    def until_shown(self, seq: int) -> None:
        """Read the news until the presenter shows this entry."""
        wanted = b'"seq": %d,' % seq
        while wanted not in self._heard:
            told = self._news.recv(65_536)
            assert told, "the server has closed the connection"
            self._heard += told
            self.received_bytes += len(told)
        self._heard = b""

    def draw(self, seq: int, told: dict[str, Any]) -> None:
        span = {"from_ms": told["first_ms"], "to_ms": told["last_ms"]}
        moment = {"seq": seq, "time_ms": told["first_ms"] + seq}
        moment_span = {"from_ms": moment["time_ms"] - 1_500, "to_ms": moment["time_ms"]}
        first = (("step", {"seq": seq - 1, "by": 1}),), (("episodes", span),)
        drawn = (
            ("spans", {**span, "open": "", "close": ""}), ("entries", span), ("samples", span),
            ("entries", moment_span), ("state", {**moment, "open": ""}), ("records", moment),
            ("health", {"time_ms": moment["time_ms"]}),
        )  # fmt: skip
        for asked in (*first, drawn):
            texts = [(name, {key: str(value) for key, value in values.items()}) for name, values in asked]
            answered = self._link.get("several", asked=json.dumps(texts))
            answers = json.loads(gzip.decompress(answered.partition(b"\r\n\r\n")[2]))["answers"]
            assert [list(each) for each in answers] == [["answer"]] * len(asked)
            self.received_bytes += len(answered)


def test_no_other_machine_reaches_a_page_that_is_not_shared(recorded: Path, address: str) -> None:
    with serving(recorded) as server:
        assert "viewers_url" not in server.told
        with pytest.raises(ConnectionRefusedError), socket.create_connection((address, Link(server.told["url"]).port)):
            pass


def test_a_shared_page_gives_viewers_what_they_read_and_nothing_else(recorded: Path, address: str) -> None:
    """The presenter's token is refused on the network, and the viewers' token on the presenter's server."""
    with serving(recorded, "--share") as server:
        presenter, viewers = Link(server.told["presenter_url"]), Link(server.told["viewers_url"])
        assert (presenter.host, viewers.host) == ("127.0.0.1", address)
        with pytest.raises(ConnectionRefusedError), socket.create_connection((address, presenter.port)):
            pass
        assert b" 200 " in viewers.get("recording")[:20]
        act = {"action": "kill", "broker": 0}
        for token in ("", "wrong", viewers.tokens["token"], presenter.tokens["token"], presenter.tokens["break"]):
            for path in ("/api-break", "/api-present"):
                assert b" 403 " in viewers.post(path, act, token)[:20]
            if token != presenter.tokens["break"]:
                assert b" 403 " in presenter.post("/api-present", LIVE, token)[:20]
            if token != viewers.tokens["token"]:
                assert b" 403 " in viewers.send("GET", f"/api-state?seq=1&token={token}")[:20]
        assert b" 403 " in presenter.send("GET", f"/api-state?seq=1&token={viewers.tokens['token']}")[:20]
        assert b" 200 " in presenter.post("/api-present", LIVE, presenter.tokens["break"])[:20]


def test_forty_viewers_cost_little_more_than_one_and_no_one_waits_for_one_who_sleeps(
    recorded: Path, address: str, record_property: Any
) -> None:
    """Processor time grows much less than the number of viewers, because each view is computed once."""
    measured: dict[int, tuple[float, float]] = {}
    for count in (1, VIEWERS):
        with serving(recorded, "--share") as server, ExitStack() as closing:
            presenter, link = Link(server.told["presenter_url"]), Link(server.told["viewers_url"])
            told = json.loads(presenter.get("recording").partition(b"\r\n\r\n")[2])
            asleep = Viewer(link)  # reads nothing
            viewers = [Viewer(link) for _ in range(count)]
            for each in (asleep, *viewers):
                closing.callback(each.close)
            before_s, before_kb = server.cpu_s(), server.memory_kb()
            for number in range(MOMENTS):
                seq = 100 + 40 * number
                began_s = time.monotonic()
                assert b" 200 " in presenter.post("/api-present", {**LIVE, "seq": seq}, presenter.tokens["break"])[:20]
                assert time.monotonic() - began_s < PATIENCE_S, "the presenter waits for no one"
                for each in viewers:
                    each.until_shown(seq)
                    each.draw(seq, told)
            measured[count] = server.cpu_s() - before_s, sum(each.received_bytes for each in viewers)
            assert server.memory_kb() - before_kb < 50_000
            answered = link.get("state", seq=100)
            assert len(gzip.decompress(answered.partition(b"\r\n\r\n")[2])) > 3 * len(answered)
    (one_s, one_bytes), (all_s, all_bytes) = measured[1], measured[VIEWERS]
    record_property("cpu_s", (one_s, all_s))
    print(f"1 viewer: {one_s:.2f} s, {one_bytes:,} bytes; {VIEWERS}: {all_s:.2f} s, {all_bytes:,} bytes")
    assert all_s < RATIO * one_s, measured
    assert all_bytes < 1.1 * VIEWERS * one_bytes, measured
