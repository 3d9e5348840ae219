"""The flight recorder of real clusters shows the truth, and no client can harm the cluster through it."""

import http.client
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoChildrenForEphemeralsError, NodeExistsError, NoNodeError, NotEmptyError

from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.recording.shared_file import open_shared_file
from kafka_zk.recorder.web.sources import LogSource, WatchSource
from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.recorder.zookeeper_files.transaction_log import TransactionLogFollower
from tests.kafka_zk.recorder.recording.histories import history
from tests.terminal import Terminal

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

TIMEOUT_S = 60
SESSION_S = 10
REFUSALS = (NodeExistsError, NoNodeError, NotEmptyError, NoChildrenForEphemeralsError)
READY = re.compile(r"web page at (http://127\.0\.0\.1:(\d+)/\S*)")
BREAK = re.compile(r"keep\s+it\s+to\s+yourself:\s+\S+&break=(\S+)")
TOKENS: dict[int, str] = {}
"""The token for reading, by the port of a page."""


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition is true. Raises: AssertionError."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"the wait for {what} took too long"
        time.sleep(0.1)


def walk(client: KazooClient) -> dict[str, Znode]:
    """All znodes, as a client reads them, except ZooKeeper's own."""
    found: dict[str, Znode] = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        data, stat = client.get(path)
        below = [f"{path.rstrip('/')}/{name}" for name in client.get_children(path)]
        waiting += [each for each in below if each != "/zookeeper"]
        if path != "/":
            owner = stat.ephemeralOwner
            found[path] = Znode(data, stat.version, stat.czxid, stat.mzxid, stat.mtime, owner)
    return found


def change(random: Random, clients: list[KazooClient], names: list[str]) -> None:
    """Make a change or a transaction with one of the clients; some are not legal."""
    client = random.choice(clients)
    with_transaction = random.random() < 0.3
    target: Any = client.transaction() if with_transaction else client
    try:
        for _ in range(random.choice((1, 3)) if with_transaction else 1):
            path = random.choice(names)
            kind = random.random()
            if kind < 0.5:
                target.create(path, random.choice((b"", random.randbytes(9))), ephemeral=random.random() < 0.5)
            elif kind < 0.8:
                setter = target.set_data if with_transaction else target.set
                setter(path, random.randbytes(5))
            else:
                target.delete(path)
        if with_transaction:
            target.commit()
    except REFUSALS:
        pass  # ZooKeeper refused it: nothing changed, and nothing may be recorded


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    zookeeper = EmbeddedZooKeeper(tmp_path / "zookeeper", tick_time_ms=500, force_sync=False)
    zookeeper.start()
    yield zookeeper
    zookeeper.stop()


@pytest.mark.parametrize("seed", range(2))
def test_what_the_log_tells_is_what_clients_read(seed: int, server: EmbeddedZooKeeper) -> None:
    """A random history is read in pieces while it grows. At each moment, the recorded znodes equal those that a client
    saw, including version, zxids and owner; a session that ends removes its znodes.
    """
    random = Random(seed)
    names = [f"/{letter}" for letter in "abcdef"] + [f"/a/{number}" for number in range(6)]
    follower = TransactionLogFollower(server.data_dir / "data")
    recording = Recording()
    reader = KazooClient(server.connect_string, timeout=SESSION_S)
    reader.start()
    seen: dict[int, dict[str, Znode]] = {}
    for _ in range(6):
        clients = [KazooClient(server.connect_string, timeout=SESSION_S) for _ in range(2)]
        for client in clients:
            client.start()
        for _ in range(25):
            change(random, clients, names)
            if random.random() < 0.3:
                seen[_read(recording, follower)] = walk(reader)
        clients[0].stop()
        clients[0].close()
        seen[_read(recording, follower)] = walk(reader)
        clients[1].stop()
        clients[1].close()
    seen[_read(recording, follower)] = walk(reader)
    reader.stop()
    reader.close()
    assert len(seen) >= 20
    for seq in random.sample(sorted(seen), k=len(seen)):
        znodes = recording.znodes.after(seq).znodes
        told = {path: znode for path, znode in znodes.items() if not path.startswith("/zookeeper")}
        assert told == seen[seq]


def test_what_was_purged_of_the_log_a_snapshot_tells(server: EmbeddedZooKeeper) -> None:
    random = Random(5)
    names = [f"/{letter}" for letter in "abcdef"] + [f"/a/{number}" for number in range(6)]
    client = KazooClient(server.connect_string, timeout=SESSION_S)
    client.start()
    for _ in range(100):
        change(random, [client], names)
    server.restart()  # ZooKeeper writes a snapshot when it starts
    until(lambda: client.connected, "the server")
    for log in (server.data_dir / "data" / "version-2").glob("log.*"):
        log.unlink()
    for _ in range(10):
        change(random, [client], names)
    source, recording = LogSource(server.data_dir / "data"), Recording()
    recording.add([], source.read())
    tree = recording.znodes.after(recording.entries.count).znodes
    assert {path: each for path, each in tree.items() if not path.startswith("/zookeeper")} == walk(client)
    assert "ZooKeeper purged" in source.misses
    client.stop()
    client.close()


def _read(recording: Recording, follower: TransactionLogFollower) -> int:
    recording.add([], follower.read())
    return recording.entries.count


def test_watches_come_to_the_same_end(server: EmbeddedZooKeeper) -> None:
    """Without a readable log, watches may miss ZooKeeper's intermediate states, but they see the last one."""
    random = Random(3)
    source = WatchSource(server.connect_string)
    recording = Recording()
    with_reader = KazooClient(server.connect_string, timeout=SESSION_S)
    with_reader.start()
    for _ in range(120):
        change(random, [with_reader], [f"/{letter}" for letter in "abcdef"])
    expected = {path: (znode.data, znode.version) for path, znode in walk(with_reader).items()}

    def same() -> bool:
        recording.add([], source.read())
        tree = recording.znodes.after(recording.entries.count).znodes
        told = {path: (each.data or b"", each.version) for path, each in tree.items() if "/zookeeper" not in path}
        return told == expected

    until(same, "the same znodes")
    with_reader.stop()
    with_reader.close()
    source.close()


@contextmanager
def page(*arguments: str | Path, ends_by: signal.Signals = signal.SIGTERM) -> Iterator[tuple[str, int]]:
    """Run ``kafka-zk web``; yields its URL and port."""
    command = [sys.executable, "-m", "kafka_zk", "web", "--port", "0", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = READY.search(process.stdout.readline())
        assert found is not None
        TOKENS[int(found[2])] = found[1].partition("#token=")[2]
        yield found[1], int(found[2])
    finally:
        process.send_signal(ends_by)
        assert process.wait(TIMEOUT_S) == 0


def ask(port: int, path: str, method: str = "GET", body: str = "", **headers: str) -> tuple[int, Any, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    if method == "GET":
        path += f"{'&' if '?' in path else '?'}token={TOKENS.get(port, '')}"
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    is_json = answer.getheader("content-type") == "application/json"
    connection.close()
    return answer.status, json.loads(content) if is_json else content, dict(answer.getheaders())


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    recording = Recording(tmp_path / "recorded.sqlite")
    recording.add([], [transaction for transaction, _ in history(5, 200)])
    recording.close()
    return tmp_path / "recorded.sqlite"


def test_a_recording_is_served_to_nobody_but_this_machines_page(recorded: Path) -> None:
    """Other sites can neither reach the page by their own host name nor change anything, and no path leads out of its
    folder.
    """
    with page(recorded) as (_, port):
        status, document, headers = ask(port, "/api-recording")
        assert (status, document["live"], document["can_break"]) == (200, False, False)
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in headers
        assert ask(port, "/")[0] == ask(port, "/main.js")[0] == 200
        assert ask(port, "/api-recording", Host="evil.example:80")[0] == 403
        assert ask(port, "/api-recording", Host="")[0] == 403
        for path in ("/../recording.py", "/%2e%2e/recording.py", "/static/main.js", "/nothing", "/main.js/x"):
            assert ask(port, path)[0] == 404
        for query in ("seq=x", "seq=-1", "seq=99999999999", "seq=%00", ""):
            status, document, _ = ask(port, f"/api-entry?{query}")
            assert (status, list(document)) == (400, ["error"])
        action = json.dumps({"action": "kill", "broker": 0})
        assert ask(port, "/api-break", "POST", action)[0] == 403
        assert ask(port, "/api-break", "POST", action, X_Kafka_Zk_Token="wrong")[0] == 403
        assert ask(port, "/api-break")[0] == 405


def test_a_stretch_is_a_file_to_keep(recorded: Path, tmp_path: Path) -> None:
    """The file is a complete recording with the znodes of its time span; a time span without entries is an error."""
    with page(recorded) as (_, port):
        _, told, _ = ask(port, "/api-recording")
        middle_ms = (told["first_ms"] + told["last_ms"]) // 2
        status, content, headers = ask(port, f"/api-export?from_ms={middle_ms}&to_ms={told['last_ms']}")
        assert (status, "attachment" in headers["Content-Disposition"]) == (200, True)
        assert ask(port, "/api-export?from_ms=1&to_ms=2")[0] == ask(port, "/api-export")[0] == 400
    (tmp_path / "part.kzr").write_bytes(content)
    whole, part = Recording(recorded, read_only=True), open_shared_file(tmp_path / "part.kzr")
    [first] = whole.entries.numbered(whole.entries.first_from(middle_ms), whole.entries.count, 1)
    assert part.entries.times() == (first.time_ms, told["last_ms"])
    assert part.znodes.after(part.entries.count).znodes == whole.znodes.after(whole.entries.count).znodes
    whole.close()
    part.close()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_it_ends_with_its_terminal(recorded: Path, number: signal.Signals) -> None:
    with page(recorded, ends_by=number) as (_, port):
        assert ask(port, "/api-recording")[0] == 200


def test_a_bad_recording_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no recording\n" * 100)
    command = [sys.executable, "-m", "kafka_zk", "web", str(tmp_path / "text")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "is neither a recording nor a scenario" in done.stderr


def test_up_shows_its_cluster_and_breaks_it_for_who_has_the_token(tmp_path: Path) -> None:
    """Every watch that fired in a broker has its change, and the page shows the killed broker as dead."""
    up = [sys.executable, "-m", "kafka_zk", "up", "--port", "0", "--web", "0", "--data", str(tmp_path / "cluster")]
    with Terminal(up, os.environ) as terminal:
        until(lambda: bool(terminal.read_until("web page at", timeout_s=TIMEOUT_S)), "the page")
        until(lambda: READY.search(terminal.text) is not None, "its URL")
        found = READY.search(terminal.text)
        assert found is not None
        port = int(found[2])
        assert "break" not in found[1]
        TOKENS[port] = found[1].partition("#token=")[2].strip()
        until(lambda: bool(terminal.read_until("&break=", timeout_s=TIMEOUT_S)), "the address for breaking")
        breaking = BREAK.search(terminal.text)
        assert breaking is not None
        token = breaking[1]
        until(lambda: _brokers(port) == [0, 1, 2] and _controller(port) is not None, "the cluster")
        victim = min({0, 1, 2} - {_controller(port)})
        document = json.dumps({"action": "kill", "broker": victim})
        assert ask(port, "/api-break", "POST", document, X_Kafka_Zk_Token="wrong")[0] == 403
        status, state, _ = ask(port, "/api-break", "POST", document, X_Kafka_Zk_Token=token)
        assert (status, state.get("state")) == (200, "ended")
        until(lambda: _brokers(port) == sorted({0, 1, 2} - {victim}), "its death to be seen")
        everything = f"/api-entries?from_ms=0&to_ms={9 * 10**12}"
        until(lambda: "BrokersChanged" in {each["kind"] for each in ask(port, everything)[1]["entries"]}, "its news")
        fired = [each for each in ask(port, everything)[1]["entries"] if each["kind"] == "WatchFired"]
        assert fired
        assert [each for each in fired if each["cause"] is None or not each["certain"]] == []


def _controller(port: int) -> int | None:
    broker: int | None = ask(port, "/api-state")[1]["cluster"]["controller"]["broker"]
    return broker


def _brokers(port: int) -> list[int]:
    return [each["id"] for each in ask(port, "/api-state")[1]["cluster"]["brokers"]]


def test_a_full_disk_under_a_recording_is_said_and_disturbs_nobody(server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    """When its file cannot grow, the page reports this and still responds, and ZooKeeper continues. Once there is
    space, no change is missing.
    """
    client = KazooClient(server.connect_string, timeout=SESSION_S)
    client.start()
    file = tmp_path / "kept.sqlite"
    arguments = ("--zookeeper", server.connect_string, "--record", file)
    command = [sys.executable, "-m", "kafka_zk", "web", "--port", "0", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        found = READY.search(process.stdout.readline())
        assert found is not None
        port = int(found[2])
        TOKENS[port] = found[1].partition("#token=")[2]
        client.create("/first")
        until(lambda: "/first" in _paths(port), "the first znode")
        told = ask(port, "/api-recording")[1]
        assert (told["used_bytes"], told["kept"]) == (file.stat().st_size, "in kept.sqlite")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (file.stat().st_size, resource.RLIM_INFINITY))
        for number in range(100):
            client.create(f"/z{number}", b"x" * 5_000)
        until(lambda: ask(port, "/api-recording")[1]["problem"] != "", "the problem")
        assert "/first" in _paths(port), "earlier records are no longer served"
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        until(lambda: ask(port, "/api-recording")[1]["problem"] == "", "room")
        until(lambda: _paths(port) >= {f"/z{number}" for number in range(100)}, "what had to wait")
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
        assert "recorded in kept.sqlite: " in process.stderr.read()
    client.stop()
    client.close()
    kept = Recording(file, read_only=True)
    assert kept.znodes.after(kept.entries.count).znodes.keys() >= {f"/z{number}" for number in range(100)}
    kept.close()


def _paths(port: int) -> set[str]:
    return {each["path"] for each in ask(port, "/api-tree")[1]["znodes"]}
