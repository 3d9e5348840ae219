"""A client that counts requests to ZooKeeper."""

from collections.abc import Awaitable, Callable, Sequence

from kafka_zk.registry.client.client import Operation, RegistryClient, SessionState, Watch, ZnodeStat
from kafka_zk.registry.client.errors import NoAuth


class CountedClient:
    """Forwards everything to ``client``. ``request_count``: requests sent; a multi counts as one."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self.request_count = 0

    @property
    def session_id(self) -> int | None:
        return self._client.session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._client.session_timeout_ms

    @property
    def state(self) -> SessionState:
        return self._client.state

    def add_session_listener(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        return self._client.add_session_listener(listener)

    def connected(self) -> Awaitable[None]:
        return self._client.connected()

    def lease_held(self) -> bool:
        return self._client.lease_held()

    def call_later(self, delay_s: float, work: Callable[[], None]) -> Callable[[], None]:
        return self._client.call_later(delay_s, work)

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[bytes | None, ZnodeStat]]:
        self.request_count += 1
        return self._client.get(path, watch)

    def get_all(self, paths: Sequence[str]) -> Awaitable[list[tuple[bytes | None, ZnodeStat] | NoAuth | None]]:
        self.request_count += 1
        return self._client.get_all(paths)

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[ZnodeStat | None]:
        self.request_count += 1
        return self._client.exists(path, watch)

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[list[str], ZnodeStat]]:
        self.request_count += 1
        return self._client.children(path, watch)

    def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Awaitable[str]:
        self.request_count += 1
        return self._client.create(path, data, ephemeral=ephemeral, sequential=sequential)

    def set(self, path: str, data: bytes, version: int = -1) -> Awaitable[ZnodeStat]:
        self.request_count += 1
        return self._client.set(path, data, version)

    def delete(self, path: str, version: int = -1) -> Awaitable[None]:
        self.request_count += 1
        return self._client.delete(path, version)

    def multi(self, operations: Sequence[Operation]) -> Awaitable[list[str | ZnodeStat | None]]:
        self.request_count += 1
        return self._client.multi(operations)

    def sync(self) -> Awaitable[None]:
        self.request_count += 1
        return self._client.sync()

    def close(self) -> Awaitable[None]:
        return self._client.close()
