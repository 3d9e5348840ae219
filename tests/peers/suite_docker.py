"""Replaces `docker compose` in another client's test suite: see `suite_cluster`."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Sequence
from pathlib import Path


def main(folder: Path, arguments: Sequence[str]) -> None:
    """`compose stop|start|logs SERVICE` sends a request to the cluster, and `exec` replaces this process. Other
    commands do nothing."""
    words = [word for word in arguments if word not in ("compose", "--profile", "zookeeper", "-T")]
    if words[0] in ("stop", "start", "logs"):
        with socket.socket(socket.AF_UNIX) as cluster:
            cluster.connect(str(folder / "docker.socket"))
            cluster.sendall(f"{words[0]} {words[-1]}".encode())
            while piece := cluster.recv(1 << 16):
                sys.stdout.buffer.write(piece)
    elif words[0] == "exec":
        command = [_local(word, folder) for word in words[2:]]
        os.execvp(command[0], command)


def _local(word: str, folder: Path) -> str:
    word = re.sub(r"/opt/kafka-[0-9.]+/bin", str(folder / "kafka/bin"), word)
    return re.sub(r"kafka-([1-5]):9091", r"127.0.0.1:910\1", word)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
