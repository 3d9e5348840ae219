"""`python -m tests.corpus.recording_broker SERVER.PROPERTIES`: our broker, which records the requests that it receives.

The file ``recorded-requests`` beside the properties file gets every frame, with the number of its connection.
"""

import struct
import sys
from pathlib import Path
from typing import IO

from kafka_zk.cli.main import main
from kafka_zk.network.connection import BrokerConnection

FILE = "recorded-requests"
HEAD = struct.Struct(">iI")
"""Precedes each frame: its connection and its size."""


def record_to(recorded: IO[bytes]) -> None:
    handle = BrokerConnection._handle

    def record(self: BrokerConnection, frame: memoryview) -> None:
        recorded.write(HEAD.pack(self._number, len(frame)))
        recorded.write(frame)
        recorded.flush()
        handle(self, frame)

    BrokerConnection._handle = record  # type: ignore[method-assign]


if __name__ == "__main__":
    with Path(sys.argv[1]).with_name(FILE).open("ab") as file:
        record_to(file)
        sys.argv[1:1] = ["broker"]
        main()
