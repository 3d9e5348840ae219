"""A broker with a low limit of open files, and a hostile client that keeps connecting: ``python -m
tests.fuzz.few_descriptors``.

Prints how many connections were accepted, the state of the broker's log directories, and the broker's log.
"""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.target import STRANGERS, Target

FILES = 300

_STRANGER = """
import resource, socket, sys
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
peers = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print("connected", flush=True)
sys.stdin.read()
"""


def main() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))
    with tempfile.TemporaryDirectory(prefix="kafka-zk-few-descriptors-") as folder:
        target = Target(Path(folder) / "logs", ("t",), socket_listen_backlog_size="1000")
        port = str(target.port(STRANGERS))
        with subprocess.Popen(
            [sys.executable, "-c", _STRANGER, port, str(2 * FILES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as stranger:
            assert stranger.stdout is not None and stranger.stdin is not None
            while len(target.connections()) < FILES // 5:
                target.reactor.turn()
            for _ in range(200):
                target.reactor.turn()
            taken = len(target.connections())
            for number in range(60):  # 120 partitions, each with a file that stays open
                target._create(f"new-{number}")
            stranger.stdin.close()
            stranger.wait(30)
        target.reactor.until(lambda: len(target.connections()) < 10)
        lines, failures = target.log.take()
        assert target.broker._logs is not None
        live = len(target.broker._logs.live_directories)
        print(json.dumps({"taken": taken, "live": live, "fatal": target.fatal, "log": lines, "failures": failures}))
        target.close()


if __name__ == "__main__":
    main()
