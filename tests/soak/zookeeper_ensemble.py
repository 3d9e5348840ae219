"""Three real ZooKeeper servers as processes of this machine, whose leader can be killed."""

from pathlib import Path
from typing import Self

from kafka_zk.embedded.health import Health, probe
from kafka_zk.embedded.ports import LOCALHOST, free_port
from kafka_zk.embedded.properties_file import properties_text
from kafka_zk.embedded.zookeeper import MAIN_CLASS, zookeeper_command
from tests.peers.processes import ServerProcess, wait_until

SERVERS = (1, 2, 3)
START_S = 60
TICK_TIME_MS = 500
_QUORUM_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class ZooKeeperEnsemble:
    """A context manager. The files of server n are in ``folder/n``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = {number: (free_port(), free_port(), free_port()) for number in SERVERS}
        self._processes: dict[int, ServerProcess] = {}

    @property
    def connect_string(self) -> str:
        return ",".join(f"{LOCALHOST}:{client}" for client, _, _ in self._ports.values())

    @property
    def ports(self) -> list[int]:
        """The ports for clients."""
        return [client for client, _, _ in self._ports.values()]

    @property
    def data_dirs(self) -> list[Path]:
        return [self._folder / str(number) / "data" for number in SERVERS]

    def start(self, number: int) -> None:
        """Begin to start a server; it continues with its data."""
        folder = self._folder / str(number)
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "data" / "myid").write_text(str(number))
        settings: dict[str, object] = {
            "tickTime": TICK_TIME_MS,
            "initLimit": 20,
            "syncLimit": 10,
            "dataDir": folder / "data",
            "clientPort": self._ports[number][0],
            "clientPortAddress": LOCALHOST,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
        }
        settings |= {
            f"server.{each}": f"{LOCALHOST}:{quorum}:{election}" for each, (_, quorum, election) in self._ports.items()
        }
        (folder / "zoo.cfg").write_text(properties_text(settings))
        command = zookeeper_command(folder / "zoo.cfg", force_sync=False, max_heap_mb=128)
        command[command.index(MAIN_CLASS)] = _QUORUM_CLASS
        self._processes[number] = ServerProcess(f"ZooKeeper {number}", command, folder / "output.txt")

    def is_whole(self) -> bool:
        """True if all three servers serve."""
        return all(probe(client).health is Health.SERVING for client, _, _ in self._ports.values())

    def wait_until_whole(self) -> None:
        """Raises: TimeoutError."""
        wait_until(self.is_whole, START_S, "three servers that serve")

    def leader(self) -> int | None:
        modes = ((number, probe(client).mode) for number, (client, _, _) in self._ports.items())
        return next((number for number, mode in modes if mode == "leader"), None)

    def kill(self, number: int) -> None:
        self._processes.pop(number).kill()

    def __enter__(self) -> Self:
        for number in SERVERS:
            self.start(number)
        self.wait_until_whole()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
