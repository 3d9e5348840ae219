"""C: the web page of a cluster: large forms, other users of the machine, and secrets in ZooKeeper."""

import contextlib
import http.client
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import pytest
from kazoo.client import KazooClient

from kafka_zk.embedded.ports import LOCALHOST
from tests.attack.bounds import MEMORY_MB
from tests.attack.cluster import wait_for
from tests.attack.siege import Siege
from tests.attack.watch import MemoryWatch
from tests.integration.processes import start

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

FORM_BYTES = 20_000_000
FORMS = 20
PATIENCE_S = 10
USER = "/config/users/alice"
SECRET = "c3RvcmVkS2V5T2ZBbGljZQ=="
_URL = re.compile(r"http://127\.0\.0\.1:(\d+)/#token=(\S+)")
_QUESTIONS = (
    "recording", "state", "tree?seq=1", f"znode?path={USER}&seq=1", "entries?from_ms=0&to_ms=9999999999999",
    "export?from_ms=0&to_ms=9999999999999",
)  # fmt: skip


class Page:
    """A ``kafka-zk web`` that shows and records a cluster."""

    def __init__(self, process: "Popen[str]", port: int, token: str, recording: Path) -> None:
        self.pid = process.pid
        self.port = port
        self.recording = recording
        self._token = token

    def get(self, question: str, token: str | None = None) -> tuple[int, bytes]:
        """The status and body of a response. If the token is None, the page's own is sent."""
        connection = http.client.HTTPConnection(LOCALHOST, self.port, timeout=PATIENCE_S)
        separator = "&" if "?" in question else "?"
        connection.request("GET", f"/api-{question}{separator}token={self._token if token is None else token}")
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body

    def send_form(self, path: str) -> bytes:
        """The start of the response to a form of which only the head and one megabyte were sent."""
        head = f"POST {path} HTTP/1.1\r\nHost: {LOCALHOST}:{self.port}\r\nContent-Length: {FORM_BYTES}\r\n"
        with socket.create_connection((LOCALHOST, self.port), PATIENCE_S) as form:
            form.sendall(head.encode() + b"Content-Type: application/x-www-form-urlencoded\r\n\r\n")
            response = form.recv(12)
            with contextlib.suppress(ConnectionError):  # the page may have closed the connection already
                form.sendall(bytes(1_000_000))
        return response


@pytest.fixture
def page(siege: Siege, tmp_path: Path) -> Iterator[Page]:
    recording = tmp_path / "recording"
    process = start("web", "--port", "0", "--zookeeper", siege.victim.zookeeper_connect, "--record", recording)
    assert process.stdout
    found = _URL.search(process.stdout.readline())
    assert found, "the page did not print its URL"
    yield Page(process, int(found[1]), found[2], recording)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)


def test_large_forms_and_other_users(siege: Siege, page: Page) -> None:
    """Forms are rejected before they are received, and requests without the token are refused."""
    memory = MemoryWatch(lambda: page.pid, MEMORY_MB, lambda: None)

    def attack() -> None:
        memory.start()
        for path in ("/", "/api-break"):
            for _ in range(FORMS):
                status = page.send_form(path)
                assert status in (b"HTTP/1.1 405", b"HTTP/1.1 413"), f"a form to {path}: {status!r}"
        for question in _QUESTIONS:
            assert {page.get(question, token)[0] for token in ("", "wrong")} == {403}, question
        assert page.get("recording")[0] == 200
        memory.stop()
        assert memory.peak_mb <= MEMORY_MB, f"the page took {memory.peak_mb:.0f} MB"

    siege("C large forms and other users at the page", attack)


def test_secrets_in_znodes(siege: Siege, page: Page, znodes: KazooClient) -> None:
    """Neither the page nor its recording contains the keys of a SCRAM user."""
    settings = {"SCRAM-SHA-256": f"salt=c2FsdA==,stored_key={SECRET},server_key={SECRET},iterations=4096"}

    def shows(question: str, what: bytes) -> Callable[[], bool]:
        return lambda: what in page.get(question)[1]

    def attack() -> None:
        znodes.create(USER, json.dumps({"version": 1, "config": settings}).encode(), makepath=True)
        wait_for(shows("entries?from_ms=0&to_ms=9999999999999", USER.encode()), "the page shows the user")
        for question in _QUESTIONS:
            assert not shows(question, SECRET.encode())(), f"the secret is in the response to {question}"
        kept = b"".join(path.read_bytes() for path in page.recording.parent.glob(f"{page.recording.name}*"))
        assert kept and SECRET.encode() not in kept, "the secret is in the recording"

    siege("C secrets in znodes, on the page", attack)
