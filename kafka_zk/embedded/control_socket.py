"""Other processes of the same user reach a running ``kafka-zk up`` through its control socket. A request and its
response are one JSON object each.

    TMP/kafka-zk-UID/PID.sock   the sockets of all running clusters, in a folder that only this user can enter
    DIR/cluster.json            names the socket of the cluster in the data directory DIR

A socket without a listener was left by a killed ``up``.
"""

import contextlib
import json
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafka_zk.embedded.errors import EmbeddedError

CLUSTER_FILE = "cluster.json"
REQUEST_TIMEOUT_S = 2
"""Maximum time that ``up`` waits for the rest of a request, while it does nothing else."""
ANSWER_TIMEOUT_S = 30
_LONGEST_BYTES = 1 << 20

Document = dict[str, Any]


class NotReached(EmbeddedError):
    """No process responds on a control socket."""


class ActionRefused(EmbeddedError):
    """``str()`` gives the reason."""


class NotOurs(OSError):
    """The folder for sockets belongs to another user, or others can write to it."""


class ControlSocket:
    """The server side, for ``up``.

    Args:
        data_dir: the cluster's data directory; must exist.
        folder: for sockets, see the module docstring.
    Raises: OSError; NotOurs.
    """

    def __init__(self, data_dir: Path, folder: Path | None = None) -> None:
        folder = folder or socket_folder()
        self._path = folder / f"{os.getpid()}.sock"
        self._cluster_file = data_dir / CLUSTER_FILE
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            _check_ours(folder)
            _remove_dead(folder)
            self._path.unlink(missing_ok=True)
            self._server.bind(str(self._path))
            self._server.listen()
            self._cluster_file.write_text(json.dumps({"pid": os.getpid(), "socket": str(self._path)}) + "\n")
        except NotOurs:
            self._server.close()
            raise
        except BaseException:  # including Ctrl-C
            self.close()
            raise

    def serve(self, timeout_s: float, answer: Callable[[Document], Mapping[str, Any]]) -> None:
        """Wait up to ``timeout_s`` for a request; the response is the result of ``answer`` or its EmbeddedError."""
        self._server.settimeout(timeout_s)
        try:
            connection, _ = self._server.accept()
        except TimeoutError:
            return
        with connection, contextlib.suppress(OSError):
            connection.settimeout(REQUEST_TIMEOUT_S)
            connection.sendall(json.dumps(_answered(_receive(connection), answer)).encode())

    def close(self) -> None:
        self._server.close()
        self._path.unlink(missing_ok=True)
        self._cluster_file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the folder contains other sockets
            self._path.parent.rmdir()


def ask(path: Path, request: Mapping[str, Any]) -> Document:
    """Raises NotReached, ActionRefused."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            answer: Document = json.loads(_receive(connection))
    except (OSError, ValueError) as error:
        raise NotReached(f"no response from {path}: {error}") from error
    if "refused" in answer:
        raise ActionRefused(answer["refused"])
    return answer


def sockets(folder: Path | None = None) -> list[Path]:
    """The sockets of all clusters of this user, possibly including killed ones."""
    return sorted((folder or socket_folder()).glob("*.sock"))


def socket_of(data_dir: Path) -> Path:
    """Raises NotReached if no cluster runs in this data directory."""
    try:
        return Path(json.loads((data_dir / CLUSTER_FILE).read_text())["socket"])
    except (OSError, ValueError, KeyError, TypeError):
        raise NotReached(f"no kafka-zk up cluster is running in {data_dir}") from None


def socket_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"kafka-zk-{os.getuid()}"


def _check_ours(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise NotOurs(f"{folder} must be a folder that only you can access: run chmod 700 on it, or remove it")


def _remove_dead(folder: Path) -> None:
    for path in sockets(folder):
        try:
            os.kill(int(path.stem), 0)
        except (ValueError, ProcessLookupError):
            path.unlink(missing_ok=True)


def _answered(request: bytes, answer: Callable[[Document], Mapping[str, Any]]) -> Mapping[str, Any]:
    try:
        document = json.loads(request)
        if not isinstance(document, dict):
            raise ValueError("an object is expected")
    except (ValueError, RecursionError) as error:
        return {"refused": f"invalid request: {error}"}
    try:
        return answer(document)
    except EmbeddedError as error:
        return {"refused": str(error)}


def _receive(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(65_536):
        received += chunk
        if len(received) > _LONGEST_BYTES:
            raise OSError("too long")
    return received
