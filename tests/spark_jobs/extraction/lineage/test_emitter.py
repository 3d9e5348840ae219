"""Events are sent to an HTTP server from the standard library, or written to a file; failures become notes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.lineage.emitter import Emitter

EVENT = {"eventType": "START"}
KEY = "a-secret"


class Received(NamedTuple):
    path: str
    login: str | None
    event: Any


class Server(ThreadingHTTPServer):
    status = 201

    def __init__(self) -> None:
        self.received: list[Received] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(Received(self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        thread = Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def notes() -> list[str]:
    return []


def test_a_server_gets_the_event_with_the_key(server: Server, notes: list[str]) -> None:
    Emitter(f"{server.url}/base/", KEY, notes.append).emit(EVENT)
    assert server.received == [Received("/base/api/v1/lineage", f"Bearer {KEY}", EVENT)] and not notes


@pytest.mark.parametrize("status", [302, 401, 500])
def test_a_refusal_or_redirection_is_a_note_without_the_key(server: Server, notes: list[str], status: int) -> None:
    server.status = status
    Emitter(server.url, KEY, notes.append).emit(EVENT)
    (told,) = notes
    assert f"answered with the HTTP status {status}" in told and KEY not in told and len(server.received) == 1


def test_an_absent_server_and_a_folder_are_notes(tmp_path: Path, notes: list[str]) -> None:
    Emitter("http://127.0.0.1:1", KEY, notes.append).emit(EVENT)
    Emitter(str(tmp_path), None, notes.append).emit(EVENT)
    assert [each.partition(":")[0] for each in notes] == ["the OpenLineage event START could not be sent"] * 2


def test_a_file_gets_a_line_for_each_event(tmp_path: Path, notes: list[str]) -> None:
    emitter = Emitter(str(tmp_path / "lineage"), None, notes.append)
    emitter.emit(EVENT)
    emitter.emit({"eventType": "COMPLETE"})
    lines = (tmp_path / "lineage").read_text().splitlines()
    assert [json.loads(line)["eventType"] for line in lines] == ["START", "COMPLETE"] and not notes


@pytest.mark.parametrize(
    "target", ["http://", "https://user:a-secret@h", "http://[::1", "http://h:port", "http://h:70000"]
)
def test_wrong_servers_are_refused_without_their_passwords(target: str, notes: list[str]) -> None:
    with pytest.raises(WronglyAsked, match="--openlineage is not") as refused:
        Emitter(target, None, notes.append)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("key", [f"{KEY}\n{KEY}", f"{KEY}\r\nX: y", f"{KEY}é"])
def test_a_key_that_is_no_header_is_refused_without_it(server: Server, notes: list[str], key: str) -> None:
    with pytest.raises(WronglyAsked, match="OPENLINEAGE_API_KEY") as refused:
        Emitter(server.url, key, notes.append)
    assert KEY not in str(refused.value)


def test_white_space_around_the_key_does_not_count(server: Server, notes: list[str]) -> None:
    Emitter(server.url, f"{KEY}\n", notes.append).emit(EVENT)
    assert [each.login for each in server.received] == [f"Bearer {KEY}"] and not notes


def test_a_file_that_blocks_is_a_note(tmp_path: Path, notes: list[str]) -> None:
    """The file is a pipe without a reader. The same holds for a server that sends one byte at a time."""
    os.mkfifo(tmp_path / "pipe")
    Emitter(str(tmp_path / "pipe"), None, notes.append, timeout_s=0.01).emit(EVENT)
    assert notes == ["the OpenLineage event START could not be sent: no complete response within 0.01 s"]
