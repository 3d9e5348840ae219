"""Which broker coordinates a group, and asking it, wherever the group moves, until a time is over.

A coordinator that loads its groups, or has just lost them, says so; then the request is sent again after a pause. Any
request may be sent twice, since an answer can be lost with its connection.

Source: AdminApiDriver.java, CoordinatorStrategy.java@3.9. Tests: tests/kafka_zk/client/test_group_admin.py.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from twisted.internet.defer import gatherResults

from kafka_zk.client.cluster import Cluster
from kafka_zk.client.config import ClientConfig
from kafka_zk.client.errors import BrokerError, KafkaError, KafkaTimeoutError, broker_error
from kafka_zk.client.waiting import Reactor, run, sleep
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

PASSING = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
"""What a coordinator answers that is not ready, or not the coordinator."""

_GROUP = 0
_FindCoordinator = codec.request(ApiKey.FIND_COORDINATOR)


class Answer(NamedTuple):
    """What a response says of one group: its error code, and the part of the response that is about the group."""

    group: str
    code: int
    content: Any


class Coordinators:
    """The coordinators of groups. Lives on the reactor's thread."""

    def __init__(self, reactor: Reactor, cluster: Cluster, config: ClientConfig) -> None:
        self._reactor = reactor
        self._cluster = cluster
        self._config = config

    async def ask(
        self,
        groups: Iterable[str],
        api_key: ApiKey,
        message: Callable[[list[str]], Any],
        answers: Callable[[Any], Iterable[Answer]],
    ) -> dict[str, Answer]:
        """One answer for each group, in their order; each coordinator is sent one request at a time.

        Args:
            message: the request about some of the groups.
            answers: what a response says of them.
        Raises: KafkaTimeoutError naming the last cause, after default.api.timeout.ms; BrokerError for what waiting does
            not cure when the coordinator is looked for. Other codes are in the answers.
        """
        wanted = list(dict.fromkeys(groups))
        found: dict[str, Answer] = {}

        def left() -> list[str]:
            return [each for each in wanted if each not in found]

        async def attempt(causes: list[KafkaError]) -> None:
            by_node: dict[int, list[str]] = {}
            for group, node_id in (await self._find(left(), causes)).items():
                by_node.setdefault(node_id, []).append(group)
            asked = [
                run(self._ask_node(node_id, part, api_key, message(part), answers, causes))
                for node_id, part in sorted(by_node.items())
            ]
            for part in await gatherResults(asked, consumeErrors=True):
                found.update({each.group: each for each in part})

        await self.until(lambda: not left(), attempt, lambda: f"the coordinator of group {left()[0]}")
        return {group: found[group] for group in wanted}

    async def until(
        self, is_done: Callable[[], bool], attempt: Callable[[list[KafkaError]], Any], whom: Callable[[], str]
    ) -> None:
        """Attempt until it is done. An attempt adds to its list what went wrong; ``whom`` says who has not answered."""
        deadline_s = self._reactor.seconds() + self._config.default_api_timeout_ms / 1000
        while not is_done():
            causes: list[KafkaError] = []
            await attempt(causes)
            if is_done():
                return
            fatal = next((cause for cause in causes if not cause.retriable), None)
            if fatal is not None:
                raise fatal
            pause_s = self._config.retry_backoff_ms / 1000
            if self._reactor.seconds() + pause_s >= deadline_s:
                last = causes[-1] if causes else "no answer"
                raise KafkaTimeoutError(
                    f"{whom()} did not answer within {self._config.default_api_timeout_ms} ms; last: {last}"
                )
            await sleep(self._reactor, pause_s)

    async def request(self, node_id: int, api_key: ApiKey, message: Any, causes: list[KafkaError]) -> Any:
        """The response of one broker; None if there is none, and why is added to ``causes``."""
        try:
            if node_id not in self._cluster.metadata.nodes:
                await self._cluster.refresh()
            if node_id not in self._cluster.metadata.nodes:
                causes.append(broker_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"broker {node_id} is not there"))
                return None
            return await self._cluster.request(node_id, api_key, message)
        except KafkaError as error:
            causes.append(error)
        except Exception as error:
            causes.append(broker_error(ErrorCode.NETWORK_EXCEPTION, f"asking broker {node_id}", str(error)))
            self._cluster.request_update()
        return None

    async def _ask_node(
        self,
        node_id: int,
        groups: Sequence[str],
        api_key: ApiKey,
        message: Any,
        answers: Callable[[Any], Iterable[Answer]],
        causes: list[KafkaError],
    ) -> list[Answer]:
        response = await self.request(node_id, api_key, message, causes)
        settled = []
        for each in answers(response) if response is not None else ():
            if each.code in PASSING:
                causes.append(broker_error(each.code, f"group {each.group} at broker {node_id}"))
            elif each.group in groups:
                settled.append(each)
        return settled

    async def _find(self, groups: Sequence[str], causes: list[KafkaError]) -> dict[str, int]:
        """The brokers that coordinate these groups, of those that are known now."""
        found: dict[str, int] = {}
        left = list(groups)
        while left:
            message = _FindCoordinator(key=left[0], key_type=_GROUP, coordinator_keys=left)
            try:
                response = await self._cluster.request_any(ApiKey.FIND_COORDINATOR, message)
            except BrokerError:
                raise
            except KafkaError as error:
                causes.append(error)
                return found
            if response.coordinators:
                named = [(each.key, each.error_code, each.node_id) for each in response.coordinators]
            else:  # an old broker answers for the first one only
                named = [(left[0], response.error_code, response.node_id)]
            for group, code, node_id in named:
                if code:
                    causes.append(broker_error(code, f"the coordinator of group {group}"))
                else:
                    found[group] = node_id
            left = [] if response.coordinators else left[1:]
        return found
