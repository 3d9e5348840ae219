"""A simulated ZooKeeper in memory, with virtual time and a seed: the client-visible behaviour of the real one, with
faults.

It keeps ZooKeeper's guarantees: the server applies the requests of a client, and responds to them, in order; a watch
event arrives before any response that shows the change; watches fire once and belong to a connection; ephemerals belong
to a session. The seed decides everything between clients: each message takes a random time. Faults: expired sessions,
broken connections (a random number of pending requests is applied, the responses are lost), silent cuts, a stopped
server, paused processes.
"""

from twisted.internet.task import Clock

from kafka_zk.registry.client.chroot import Chroot
from kafka_zk.registry.client.client import Create
from kafka_zk.sim.zookeeper.client import SimClient
from kafka_zk.sim.zookeeper.server import Server


class SimZooKeeper(Server):
    """Arguments: as for ``Server``."""

    def __init__(
        self,
        clock: Clock,
        seed: int = 0,
        *,
        delay_ms: tuple[float, float] = (0.1, 2.0),
        loss_probability: float = 0.0,
    ) -> None:
        super().__init__(clock, seed, delay_ms=delay_ms, loss_probability=loss_probability)
        self.clients: list[SimClient] = []

    def client(self, name: str, *, session_timeout_ms: int = 6000, chroot: str = "") -> SimClient:
        """Already connected; the chroot is created if it does not exist."""
        for path in Chroot(chroot).ancestors():
            if self.tree.exists(path) is None:
                self.fire(self.tree.apply(Create(path), 0, int(self.now_ms))[1])
        client = SimClient(self, name, session_timeout_ms, chroot)
        self.clients.append(client)
        client.attach(*self.open_session(client))
        return client

    def expire(self, who: SimClient | int) -> None:
        """End a session now, as if its timeout had passed. The client notices with the server's next message."""
        session_id = who if isinstance(who, int) else who.session_id
        session = self.sessions.get(session_id or 0)
        if session is not None:
            self.end_session(session, expired=True)
