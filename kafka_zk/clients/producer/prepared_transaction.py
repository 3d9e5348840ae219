"""Transactions that one producer has filled and left open, for another program to end.

Until a transaction is ended, read_committed readers see none of its records. The coordinator aborts it after
``transaction.timeout.ms``.
Source: KIP-939 (the idea and the name), EndTxn@3.9.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.coordinators import TRANSACTION
from kafka_zk.clients.connection.errors import KafkaError, KafkaTimeoutError, broker_error
from kafka_zk.clients.connection.key_coordinator import KeyCoordinator
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.clients.connection.waiting import Reactor, sleep
from kafka_zk.clients.producer import transaction_requests as requests
from kafka_zk.clients.producer.config import ProducerConfig
from kafka_zk.clients.producer.transaction_state import Outcome, outcome_of
from kafka_zk.protocol.errors import ErrorCode


class PreparedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


async def end_transactions(
    reactor: Reactor, config: ProducerConfig, prepared: Iterable[PreparedTransaction], *, is_committed: bool
) -> None:
    """Commit or abort transactions one after the other. It is not an error if one has already ended in the same way.

    Raises: KafkaError for the first transaction that cannot be ended, KafkaTimeoutError after ``max.block.ms``. When
    committing, later transactions then stay open.
    """
    cluster = Cluster(reactor, config, allow_auto_topic_creation=False)
    try:
        first: KafkaError | None = None
        for each in prepared:
            try:
                await _end(reactor, config, cluster, each, is_committed)
            except KafkaError as error:
                if is_committed:
                    raise
                first = first or error  # an open transaction would hold up readers until its timeout
        if first is not None:
            raise first
    finally:
        await cluster.close()


def end_transactions_blocking(prepared: Iterable[PreparedTransaction], *, is_committed: bool, **options: Any) -> None:
    """``end_transactions`` for threads; ``options`` are those of a producer."""
    thread = reactor_thread()
    config = ProducerConfig.from_properties(options)
    given = list(prepared)

    async def end() -> None:
        await end_transactions(thread.reactor, config, given, is_committed=is_committed)

    thread.call(end)


async def _end(
    reactor: Reactor, config: ProducerConfig, cluster: Cluster, prepared: PreparedTransaction, is_committed: bool
) -> None:
    coordinator = KeyCoordinator(reactor, config, cluster, prepared.transactional_id, TRANSACTION)
    request = requests.end(*prepared, is_committed=is_committed, is_known=True)
    deadline_s = reactor.seconds() + config.max_block_ms / 1000
    while True:
        try:
            answer = await coordinator.ask(request.api_key, request.message, request.lowest, request.highest)
            code = ErrorCode.of(answer.error_code)
        except KafkaError as error:
            if not error.retriable:
                raise
            code = error.code or ErrorCode.NETWORK_EXCEPTION
        if code is ErrorCode.NONE:
            return
        outcome = outcome_of(code)
        if outcome not in (Outcome.RETRY, Outcome.FIND_AND_RETRY):
            raise broker_error(code, request.doing)
        if reactor.seconds() >= deadline_s:
            raise KafkaTimeoutError(f"{request.doing}: {code.name} for {config.max_block_ms} ms (max.block.ms)", code)
        if outcome is Outcome.FIND_AND_RETRY:
            coordinator.forget()
        await sleep(reactor, config.retry_backoff_ms / 1000)
