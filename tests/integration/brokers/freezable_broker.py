"""`python -m tests.integration.brokers.freezable_broker SERVER.PROPERTIES`: our broker, whose reactor can be frozen.

A DescribeLogDirs request gets its response only once a file ``thaw`` exists beside the properties file. Until then, the
reactor's thread sleeps in the handler, and all other threads (kazoo's, the watchdog's) continue. SIGSTOP would stop
those as well, so that any broker would lose its session.

While a file ``hang`` exists there, the disk hangs: every write to a file blocks.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from kafka_zk.broker.handlers.table import MESSAGE_HANDLERS
from kafka_zk.cli.main import main
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.storage.files import files

POLL_INTERVAL_S = 0.02
THAW = "thaw"
HANG = "hang"


def make_freezable(folder: Path) -> None:
    describe = MESSAGE_HANDLERS[ApiKey.DESCRIBE_LOG_DIRS]

    async def freeze(services: Any, context: Any, header: Any, request: Any) -> Any:
        while not (folder / THAW).exists():
            time.sleep(POLL_INTERVAL_S)
        return await describe(services, context, header, request)

    MESSAGE_HANDLERS[ApiKey.DESCRIBE_LOG_DIRS] = freeze


def hanging_disk(folder: Path) -> files.FileSystem:
    def write(descriptor: int, data: files.Data) -> int:
        while (folder / HANG).exists():
            time.sleep(POLL_INTERVAL_S)  # releases the GIL, as the system call does
        return os.write(descriptor, data)

    disk = files.FileSystem()
    disk.write = write  # type: ignore[assignment]
    return disk


if __name__ == "__main__":
    own_folder = Path(sys.argv[1]).resolve().parent
    make_freezable(own_folder)
    sys.argv[1:1] = ["broker"]
    with files.use(hanging_disk(own_folder)):
        main()
