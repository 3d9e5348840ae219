"""Reads the folders of ``--log-dirs``."""

from collections.abc import Mapping
from pathlib import Path

from kafka_zk.cli.terminal.properties import parse_properties
from kafka_zk.migration.facts import Fact, LogDir, MigrationState, Unknown

_MOST_BYTES = 64 * 1024
_RIGHTS = "the rights of the node's own user"


def read_log_dir(path: Path) -> LogDir:
    """Read a node's log directory. A file that cannot be read is an ``Unknown``."""
    return LogDir(str(path), _meta(path / "meta.properties"), _recorded_state(path))


def _meta(file: Path) -> Fact[Mapping[str, str] | None]:
    try:
        if not file.exists():
            return None
        with file.open("rb") as opened:
            return parse_properties(opened.read(_MOST_BYTES).decode(errors="replace"))
    except OSError as error:
        return _unknown(f"{file}: {error.strerror or error}")


def _recorded_state(path: Path) -> Fact[MigrationState] | None:
    from kafka_zk.migration.metadata.log_folder import METADATA_LOG, read_folder
    from kafka_zk.migration.metadata.replay import UnreadableMetadata

    try:
        if not (path / METADATA_LOG).exists():
            return None
        log = read_folder(path)
    except OSError as error:
        return _unknown(f"{path / METADATA_LOG}: {error.strerror or error}")
    except UnreadableMetadata as error:
        return _unknown(str(error))
    return log.state if log.end_offset else None


def _unknown(reason: str) -> Unknown:
    return Unknown(reason, _RIGHTS)
