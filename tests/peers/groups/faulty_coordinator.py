"""A kafka-zk broker whose group coordinator lacks a safeguard.

``python -m tests.peers.groups.faulty_coordinator PROPERTIES``; the variable FAULT says which. Only the tests
of the judges start it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.group.group import Group
from kafka_zk.broker.group.offset_manager import Codes, Committer, OffsetManager
from kafka_zk.broker.group.records import OffsetAndMetadata
from kafka_zk.broker.handlers.groups import offset_fetch
from kafka_zk.cli.main import main
from kafka_zk.protocol.errors import ErrorCode

VARIABLE = "FAULT"
_SKIPPED = 3


def _take_every_commit() -> None:
    """Accept every commit, also of a member of a former generation."""

    def commit_refusal(*_: Any, **__: Any) -> ErrorCode:
        return ErrorCode.NONE

    Group.commit_refusal = commit_refusal  # type: ignore[method-assign]


def _give_all_members_one_share() -> None:
    answer = Group._answer_sync

    def answer_sync(self: Group, reply: Reply, assignment: bytes) -> None:
        answer(self, reply, max(member.assignment for member in self.members))

    Group._answer_sync = answer_sync  # type: ignore[method-assign]


def _skip_records() -> None:
    """Skip the first records of each partition. A skip from a committed offset can lead beyond the end of the log,
    where clients begin again at its start and read the skipped records.
    """
    found = offset_fetch._found

    def later(*arguments: Any, **options: Any) -> Any:
        answer = found(*arguments, **options)
        return answer if answer.offset >= 0 else answer._replace(offset=_SKIPPED)

    offset_fetch._found = later


def _store_no_commit() -> None:
    async def commit(
        self: OffsetManager, group_id: str, committer: Committer, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Codes:
        return dict.fromkeys(offsets, self._refusal(group_id, committer))

    OffsetManager.commit = commit  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    "take every commit": _take_every_commit,
    "give all members one share": _give_all_members_one_share,
    "skip records": _skip_records,
    "store no commit": _store_no_commit,
}

if __name__ == "__main__":
    FAULTS[os.environ[VARIABLE]]()
    main(["broker", *sys.argv[1:]])
