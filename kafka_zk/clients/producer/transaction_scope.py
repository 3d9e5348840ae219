"""``async with producer.transaction():`` commits at the end of the block, and aborts after an exception."""

from types import TracebackType
from typing import Protocol

from kafka_zk.clients.producer.errors import TransactionAbortable, TransactionFatal


class Transactional(Protocol):
    def begin_transaction(self) -> None: ...

    async def commit_transaction(self) -> None: ...

    async def abort_transaction(self) -> None: ...


def may_be_aborted(error: BaseException | None) -> bool:
    return not isinstance(error, TransactionFatal)


class TransactionScope:
    """The transaction of one ``async with`` block. Raises the errors of ``commit_transaction``, after an abort where
    possible.
    """

    def __init__(self, producer: Transactional) -> None:
        self._producer = producer

    async def __aenter__(self) -> None:
        self._producer.begin_transaction()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._commit()
        elif may_be_aborted(error):
            await self._producer.abort_transaction()

    async def _commit(self) -> None:
        try:
            await self._producer.commit_transaction()
        except TransactionAbortable:
            await self._producer.abort_transaction()
            raise
