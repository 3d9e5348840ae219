"""`python -m tests.integration.brokers.freezable_broker SERVER.PROPERTIES`: our broker, whose reactor can be frozen.

A DescribeLogDirs request is answered only when the file ``thaw`` lies beside the properties file; until then the
reactor's thread sleeps in the handler, and all other threads (kazoo's, the watchdog's) go on. SIGSTOP would stop those
as well, and any session would be lost.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from kafka_zk.broker.handlers.table import MESSAGE_HANDLERS
from kafka_zk.cli.main import main
from kafka_zk.protocol.api_keys import ApiKey

POLL_INTERVAL_S = 0.02
THAW = "thaw"


def make_freezable(folder: Path) -> None:
    describe = MESSAGE_HANDLERS[ApiKey.DESCRIBE_LOG_DIRS]

    async def freeze(services: Any, context: Any, header: Any, request: Any) -> Any:
        while not (folder / THAW).exists():
            time.sleep(POLL_INTERVAL_S)
        return await describe(services, context, header, request)

    MESSAGE_HANDLERS[ApiKey.DESCRIBE_LOG_DIRS] = freeze


if __name__ == "__main__":
    make_freezable(Path(sys.argv[1]).resolve().parent)
    sys.argv[1:1] = ["broker"]
    main()
