"""Reads the folders of ``--log-dirs``."""

from pathlib import Path
from typing import TYPE_CHECKING

from kafka_zk.cli.terminal.properties import parse_properties

if TYPE_CHECKING:
    from kafka_zk.migration.facts import LogDir

_MOST_BYTES = 64 * 1024
_METADATA_LOG = "__cluster_metadata-0"


def read_log_dir(path: Path) -> "LogDir":
    """A file that cannot be read is unknown."""
    from kafka_zk.migration.facts import LogDir, Unknown

    meta = path / "meta.properties"
    try:
        if not meta.exists():
            return LogDir(str(path), None, (path / _METADATA_LOG).exists())
        with meta.open("rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="replace")
        return LogDir(str(path), parse_properties(text), (path / _METADATA_LOG).exists())
    except OSError as error:
        reason = f"{meta}: {error.strerror or error}"
        return LogDir(str(path), Unknown(reason, "the rights of the node's own user"), has_metadata_log=False)
