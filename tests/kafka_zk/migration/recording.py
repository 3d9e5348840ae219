"""Records a real cluster's responses to the doctor in a file, and replays them without the cluster.

``python -m tests.peers.clusters.record_migration`` writes the files in ``recordings/``.
"""

import base64
import json
import zlib
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.migration.cluster_collector import NOT_ASKED, ask_brokers, ask_controllers
from kafka_zk.migration.facts import ClusterFacts, Examples, LogDir, MigrationState, Unknown
from kafka_zk.migration.node_collector import NodeCollector
from kafka_zk.migration.zookeeper_collector import collect
from kafka_zk.network.client import KafkaConnection
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.registry.client.client import ZnodeStat
from kafka_zk.registry.client.errors import NoAuth, NoNode
from kafka_zk.security.errors import SaslAuthenticationFailed

T = TypeVar("T")
FOLDER = Path(__file__).parent / "recordings"

_PAUSE_S, _MOST_PAUSES = 10, 20

HIDDEN = "hidden"
"""The answer to a request that an ACL of ZooKeeper refuses."""

_USUAL: dict[str, Any] = {"data": None, "version": 0, "ephemeral": False, "children": [], "open": True}
Configs = Mapping[str, str | None]


def packed(body: bytes) -> str:
    return base64.b64encode(zlib.compress(body, 9)).decode()


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


@dataclass
class Recording:
    """``znodes``: path -> data (text), version, ephemeral, children and open; all except the version may be HIDDEN.
    ``answers``: address -> ``API key.version`` -> response body, ``packed``; an address without responses refused the
    connection. ``refused_logins``: address -> reason. ``is_written``: None if unknown. ``four_letter_words``:
    ZooKeeper's answers to ``srvr`` and ``cons``.
    """

    release: str
    znodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    answers: dict[str, dict[str, str]] = field(default_factory=dict)
    refused_logins: dict[str, str] = field(default_factory=dict)
    bootstrap: str | None = None
    is_written: bool | None = None
    broker_files: dict[str, Configs] = field(default_factory=dict)
    controller_files: dict[str, Configs] = field(default_factory=dict)
    log_dirs: list[dict[str, Any]] = field(default_factory=list)
    four_letter_words: dict[str, str] = field(default_factory=dict)

    def save(self, name: str) -> None:
        """One line for each znode and node, without the parts that most znodes have."""
        fields = asdict(self)
        fields["znodes"] = {
            path: {part: value for part, value in znode.items() if value != _USUAL[part]}
            for path, znode in self.znodes.items()
        }
        lines = [f"{json.dumps(key)}: {_by_line(value)}" for key, value in sorted(fields.items())]
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _by_line(value: Any) -> str:
    if not isinstance(value, dict) or not value:
        return json.dumps(value, sort_keys=True)
    lines = [f" {json.dumps(key)}: {json.dumps(each, sort_keys=True)}" for key, each in sorted(value.items())]
    return "{\n" + ",\n".join(lines) + "\n}"


def load(name: str) -> Recording:
    fields = json.loads((FOLDER / f"{name}.json").read_text())
    znodes = {path: {**_USUAL, **znode} for path, znode in fields.pop("znodes").items()}
    return Recording(znodes=znodes, **fields)


class RecordedZooKeeper:
    """Answers reads as the recorded ZooKeeper did, with its ACLs."""

    def __init__(self, znodes: Mapping[str, Mapping[str, Any]]) -> None:
        self._znodes = znodes

    async def get(self, path: str, watch: Any = None) -> tuple[bytes | None, ZnodeStat]:
        data = self._part(path, "data")
        znode = self._znodes[path]
        stat = ZnodeStat(0, 0, 0, 0, znode["version"], 0, 0, int(znode["ephemeral"]), len(data or ""), 0, 0)
        return None if data is None else data.encode("latin-1"), stat

    async def get_all(self, paths: Sequence[str]) -> list[tuple[bytes | None, ZnodeStat] | NoAuth | None]:
        answers: list[tuple[bytes | None, ZnodeStat] | NoAuth | None] = []
        for path in paths:
            try:
                answers.append(await self.get(path))
            except NoAuth as error:
                answers.append(error)
            except NoNode:
                answers.append(None)
        return answers

    async def children(self, path: str, watch: Any = None) -> tuple[list[str], ZnodeStat]:
        names: list[str] = self._part(path, "children")
        return names, ZnodeStat(*[0] * len(ZnodeStat._fields))

    async def sync(self) -> None:
        pass

    async def is_open(self, path: str) -> bool:
        is_open: bool = self._part(path, "open")
        return is_open

    def _part(self, path: str, part: str) -> Any:
        if path not in self._znodes:
            raise NoNode(path)
        if (found := self._znodes[path][part]) == HIDDEN:
            raise NoAuth(path)
        return found


class RecordedConnection(KafkaConnection):
    """Gives the recorded response, if the request has the recorded version. Otherwise the connection is closed."""

    def __init__(self, clock: Clock, answers: Mapping[str, str]) -> None:
        super().__init__(clock, None)
        self._answers = answers
        for name, body in answers.items():
            api_key, version = map(int, name.split("."))
            if api_key == ApiKey.API_VERSIONS:
                offered = codec.decode_response(api_key, version, unpacked(body)).api_keys
                self.versions = {each.api_key: (each.min_version, each.max_version) for each in offered}

    def send_raw(self, api_key: int, version: int, *_: Any, **__: Any) -> "Deferred[memoryview]":
        answer = self._answers.get(f"{int(api_key)}.{version}")
        if answer is None:
            return fail(Failure(ConnectionDone(f"no recorded response of API {api_key} version {version}")))
        return succeed(memoryview(unpacked(answer)))

    def disconnect(self) -> Any:
        return None


def facts_of(recording: Recording) -> ClusterFacts:
    """What the doctor learns from the recorded cluster."""
    client: Any = RecordedZooKeeper(recording.znodes)
    clock: Any = Clock()
    zookeeper = _done(collect(client), clock)
    if recording.is_written is not None:
        zookeeper = replace(zookeeper, is_written=recording.is_written)

    async def connect(
        _: Any, host: str, port: int, *__: Any, negotiate: bool = True, **___: Any
    ) -> KafkaConnection:
        address = f"{host}:{port}"
        if negotiate and address in recording.refused_logins:
            raise SaslAuthenticationFailed(recording.refused_logins[address])
        answers = recording.answers.get(address)
        if not answers:
            raise Refused("refused")
        return RecordedConnection(clock, answers)

    collector = NodeCollector(clock, ClientConfig(bootstrap_servers=recording.bootstrap or "h:9092"), connect)
    registered = () if isinstance(zookeeper.registered, Unknown) else zookeeper.registered

    async def ask() -> Any:
        addresses = NOT_ASKED if recording.bootstrap is None else await collector.addresses()
        brokers = await ask_brokers(collector, addresses, registered, recording.broker_files)
        return brokers, *await ask_controllers(
            collector, zookeeper, brokers, recording.broker_files, recording.controller_files
        )

    brokers, controllers, quorum = _done(ask(), clock)
    return ClusterFacts(
        zookeeper, brokers, controllers, quorum, recording.broker_files, recording.controller_files,
        tuple(map(_log_dir, recording.log_dirs)), strangers=Examples(),
    )  # fmt: skip


def _log_dir(recorded: Mapping[str, Any]) -> LogDir:
    state = recorded["recorded_state"]
    return LogDir(recorded["path"], recorded["meta"], None if state is None else MigrationState[state])


def _done(work: Awaitable[T], clock: Clock) -> T:
    """The result after at most some pauses between attempts to connect."""
    async def run() -> T:
        return await work

    results: list[Any] = []
    Deferred.fromCoroutine(run()).addBoth(results.append)
    clock.pump([_PAUSE_S] * _MOST_PAUSES)
    (result,) = results
    if isinstance(result, Failure):
        result.raiseException()
    found: T = result
    return found
