"""A plugin of pytest: while it is loaded, the peers' tests start brokers that record requests."""

import sys
from pathlib import Path

from tests.peers import targets


def _command(properties: Path) -> list[str]:
    return [sys.executable, "-m", "tests.corpus.recording_broker", str(properties)]


targets.kafka_zk_command = _command
