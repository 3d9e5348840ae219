"""Finds the coordinators of groups, and sends them requests with retries until a timeout.

A coordinator returns an error while it loads its groups and after it has lost them; the request is repeated after a
pause. Any request may be sent twice, because a response can be lost with its connection. The client of one group uses
``GroupCoordinator``.

Source: AdminApiDriver.java, CoordinatorStrategy.java@3.9.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from twisted.internet.defer import CancelledError, gatherResults

from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.errors import KafkaError, KafkaTimeoutError, broker_error
from kafka_zk.clients.connection.metadata import Node
from kafka_zk.clients.connection.waiting import Reactor, run, sleep
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

COORDINATOR_GONE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""The broker is not the coordinator: find it again."""
PASSING = COORDINATOR_GONE | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""The coordinator is not ready, or has moved."""

GROUP, TRANSACTION = 0, 1
"""FindCoordinatorRequest.CoordinatorType."""

_NAMES = {GROUP: "group", TRANSACTION: "transactional id"}
_FindCoordinator = codec.request(ApiKey.FIND_COORDINATOR)


class Answer(NamedTuple):
    """The part of a response that concerns one group."""

    group: str
    code: int
    content: Any


class Coordinators:
    """The coordinators of groups or of transactional ids, on the reactor thread."""

    def __init__(self, reactor: Reactor, cluster: Cluster, config: ClientConfig, key_type: int = GROUP) -> None:
        self._key_type = key_type
        self._reactor = reactor
        self._cluster = cluster
        self._config = config

    async def ask(
        self,
        groups: Iterable[str],
        api_key: ApiKey,
        message: Callable[[list[str]], Any],
        answers: Callable[[list[str], Any], Iterable[Answer]],
    ) -> dict[str, Answer]:
        """One answer for each group, in their order; each coordinator gets one request at a time.

        Args:
            message: creates the request for some of the groups.
            answers: extracts the groups' answers from a response; missing groups are asked for again.
        Raises: KafkaTimeoutError with the last cause, after default.api.timeout.ms; BrokerError for a permanent error
            when finding the coordinator. Other codes are in the answers.
        """
        wanted = list(dict.fromkeys(groups))
        found: dict[str, Answer] = {}

        def left() -> list[str]:
            return [each for each in wanted if each not in found]

        async def attempt(causes: list[KafkaError]) -> None:
            by_node: dict[int, list[str]] = {}
            for group, node in (await self.find(left(), causes)).items():
                by_node.setdefault(node.node_id, []).append(group)
            asked = [
                run(self._ask_node(node_id, part, api_key, message(part), answers, causes))
                for node_id, part in sorted(by_node.items())
            ]
            for part in await gatherResults(asked, consumeErrors=True):
                found.update({each.group: each for each in part})

        await self.until(lambda: not left(), attempt, lambda: f"the coordinator of group {left()[0]}")
        return {group: found[group] for group in wanted}

    async def until(
        self,
        is_done: Callable[[], bool],
        attempt: Callable[[list[KafkaError]], Awaitable[None]],
        whom: Callable[[], str],
        timeout_ms: float | None = None,
    ) -> None:
        """Repeat ``attempt`` until ``is_done``, every ``retry.backoff.ms``; default timeout: default.api.timeout.ms.

        ``attempt`` adds its errors to the list; if it adds none, it has made progress. ``whom`` returns the name of the
        party that has not responded, for the timeout's message.
        Raises: KafkaTimeoutError; exceptions of an attempt, and the first permanent error of its list.
        """
        timeout_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_s = self._reactor.seconds() + timeout_ms / 1000
        while not is_done():
            causes: list[KafkaError] = []
            await attempt(causes)
            if is_done():
                return
            if not causes:
                continue  # it has made progress, so no pause is needed
            fatal = next((cause for cause in causes if not cause.retriable), None)
            if fatal is not None:
                raise fatal
            pause_s = self._config.retry_backoff_ms / 1000
            if self._reactor.seconds() + pause_s >= deadline_s:
                raise KafkaTimeoutError(f"{whom()} did not respond within {timeout_ms} ms; last: {causes[-1]}")
            await sleep(self._reactor, pause_s)

    async def request(self, node_id: int, api_key: ApiKey, message: Any, causes: list[KafkaError]) -> Any:
        """Return the response. Without a response, return None and add the reason to ``causes``."""
        try:
            if node_id not in self._cluster.metadata.nodes:
                await self._cluster.refresh()
            if node_id not in self._cluster.metadata.nodes:
                told = f"broker {node_id} is not in the metadata"
                causes.append(broker_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, told))
                return None
            return await self._cluster.request(node_id, api_key, message)
        except CancelledError:
            raise
        except KafkaError as error:
            causes.append(error)
        except Exception as error:
            causes.append(broker_error(ErrorCode.NETWORK_EXCEPTION, f"asking broker {node_id}", str(error)))
            self._cluster.request_update()
        return None

    async def _ask_node(
        self,
        node_id: int,
        groups: list[str],
        api_key: ApiKey,
        message: Any,
        answers: Callable[[list[str], Any], Iterable[Answer]],
        causes: list[KafkaError],
    ) -> list[Answer]:
        response = await self.request(node_id, api_key, message, causes)
        if response is None:
            return []
        settled = []
        for each in answers(groups, response):
            if each.code in PASSING:
                causes.append(broker_error(each.code, f"group {each.group} at broker {node_id}"))
            elif each.group in groups:
                settled.append(each)
        if not settled and not causes:
            causes.append(
                broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, f"no result for group {groups[0]} from broker {node_id}")
            )
        return settled

    async def find(self, groups: Sequence[str], causes: list[KafkaError]) -> dict[str, Node]:
        """Return the coordinators that were found. The reasons for missing ones are added to ``causes``."""
        found: dict[str, Node] = {}
        left = list(groups)
        while left:
            message = _FindCoordinator(key=left[0], key_type=self._key_type, coordinator_keys=left)
            try:
                response = await self._cluster.request_any(ApiKey.FIND_COORDINATOR, message)
            except KafkaError as error:
                causes.append(error)
                return found
            if response.coordinators:
                named = [(each.key, each) for each in response.coordinators]
            else:  # an old broker responds for the first group only
                named = [(left[0], response)]
            for group, answer in named:
                if answer.error_code:
                    causes.append(broker_error(answer.error_code, f"the coordinator of {self._name(group)}"))
                elif group in groups:
                    found[group] = Node(answer.node_id, answer.host, answer.port)
            left = [] if response.coordinators else left[1:]
        if not found and not causes:
            causes.append(
                broker_error(
                    ErrorCode.UNKNOWN_SERVER_ERROR, f"no response about the coordinator of {self._name(groups[0])}"
                )
            )
        return found

    def _name(self, key: str) -> str:
        return f"{_NAMES[self._key_type]} {key}"
