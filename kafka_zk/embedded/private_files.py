"""Files with secrets that only their owner can read."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from kafka_zk.embedded.errors import EmbeddedError


def write_private(path: Path, data: bytes | str) -> Path:
    """Replace atomically, with mode 0600; open descriptors keep the old content. Raises: OSError."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # has mode 0600
    try:
        with open(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return path


def private_folder(path: Path) -> Path:
    """Set mode 0700; create the folder if it does not exist.

    Raises: EmbeddedError if it belongs to another user, or others can enter it; OSError.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise EmbeddedError(f"{path} must be a folder that you own; remove it")
    if found.st_mode & 0o077:
        raise EmbeddedError(
            f"others can enter {path} (mode {found.st_mode & 0o777:04o}), where private keys are: chmod 700 {path}, or "
            "remove it to create new ones"
        )
    return path
