"""The coordinator of one transactional id or group, for callers that send single requests.

``ask`` raises temporary errors, and the caller retries. Members of groups use ``group_coordinator``.

On the reactor thread. Source: TransactionManager.java@3.9 (lookupCoordinator).
"""

from typing import Any

from twisted.internet.defer import CancelledError

from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.connections import version_between
from kafka_zk.clients.connection.coordinators import Coordinators
from kafka_zk.clients.connection.errors import (
    AuthenticationError,
    ClientClosed,
    KafkaError,
    ResponseLost,
    broker_error,
)
from kafka_zk.clients.connection.waiting import Reactor
from kafka_zk.network.client import KafkaConnection
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode

PURPOSE = "coordinator"


class KeyCoordinator:
    """``key_type``: ``coordinators.GROUP`` or ``TRANSACTION``."""

    def __init__(self, reactor: Reactor, config: ClientConfig, cluster: Cluster, key: str, key_type: int) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(reactor, cluster, config, key_type)
        self._key = key
        self._address: tuple[str, int] | None = None

    def forget(self) -> None:
        """Forget the coordinator, which has moved or does not respond."""
        self._address = None

    async def ask(
        self, api_key: ApiKey, message: Any, lowest: int = 0, highest: int = 99, timeout_ms: int | None = None
    ) -> Any:
        """Send a request and return the response, whatever its error code. Default timeout: request.timeout.ms.

        Raises: KafkaError; ResponseLost, with the code NETWORK_EXCEPTION, only if the request was sent; ClientClosed.
        """
        host, port = await self.find()
        is_sent = False
        doing = f"{api_key.name} to the coordinator at {host}:{port}"
        try:
            connection = await self._connection(host, port, api_key)
            version = version_between(connection, api_key, lowest, highest)
            timeout_s = None if timeout_ms is None else timeout_ms / 1000
            is_sent = True
            return await connection.request(api_key, message, version=version, timeout_s=timeout_s)
        except (AuthenticationError, ClientClosed, CancelledError):
            raise
        except (KafkaError, ApiError) as error:
            raise broker_error(error.code or ErrorCode.NETWORK_EXCEPTION, doing, str(error)) from error
        except Exception as error:
            if self._address == (host, port):
                self.forget()
            failure = broker_error(ErrorCode.NETWORK_EXCEPTION, doing, str(error))
            raise (ResponseLost(str(failure), failure.code) if is_sent else failure) from error

    async def find(self) -> tuple[str, int]:
        """The coordinator's address. Raises: KafkaError."""
        if self._address is None:
            causes: list[KafkaError] = []
            found = await self._coordinators.find([self._key], causes)
            if self._key not in found:
                raise causes[-1]
            self._address = found[self._key].host, found[self._key].port
        return self._address

    async def _connection(self, host: str, port: int, api_key: ApiKey) -> KafkaConnection:
        return await self._cluster.connection_to(host, port, PURPOSE)
