"""Reads what a 3.9 KRaft controller logs about a migration. Pure."""

import re
from collections.abc import Iterable

from kafka_zk.migration.rehearsal.process_log import MOST_CHARACTERS, MOST_ERRORS, ProcessLog

WAITING = "Putting the controller into pre-migration mode"
COPIED = re.compile(r"Completed migration of metadata from ZooKeeper to KRaft\. (\d+) records")
SYNCED = re.compile(r"(?:Did not make any|Made the following) ZK writes when reconciling with KRaft state(.*)")
SKIPPED = "Initial migration of ZK metadata is done"
"""A new controller has found a leftover /migration, and will overwrite the znodes with its own empty metadata."""
DUAL_WRITE = "to DUAL_WRITE state"
FINALIZED = "Completing the ZK migration since this controller was configured with"
STUCK = ("Still waiting for", "No brokers are known to KRaft", "Still waiting for all controller nodes")


class ControllerLog(ProcessLog):
    """The decisive lines so far. ``waits_for``: the last reason for waiting, empty before the first."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__(secrets)
        self.is_waiting = False
        self.skips_copy = False
        self.copied_records: int | None = None
        self.writes: str | None = None
        self.is_dual_write = False
        self.is_finalized = False
        self.waits_for = ""

    def _look(self, message: str) -> None:
        if WAITING in message:
            self.is_waiting = True
        elif found := COPIED.search(message):
            self.copied_records, self.waits_for = int(found[1]), ""
        elif found := SYNCED.search(message):
            self.writes = found[1].strip(" :.") or "none"
        elif SKIPPED in message:
            self.skips_copy = True
        elif DUAL_WRITE in message:
            self.is_dual_write = True
        elif FINALIZED in message:
            self.is_finalized = True
        elif any(each in message for each in STUCK):
            self.waits_for = message[:MOST_CHARACTERS]

    def add(self, other: "ControllerLog") -> None:
        """Add the log of another controller of the quorum, because only the leader logs the migration's progress."""
        self.is_waiting |= other.is_waiting
        self.skips_copy |= other.skips_copy
        self.is_dual_write |= other.is_dual_write
        self.is_finalized |= other.is_finalized
        self.copied_records = self.copied_records if other.copied_records is None else other.copied_records
        self.writes = other.writes or self.writes
        self.waits_for = "" if self.copied_records is not None else other.waits_for or self.waits_for
        for text, count in other._errors.items():
            if text in self._errors or len(self._errors) < MOST_ERRORS:
                self._errors[text] += count
