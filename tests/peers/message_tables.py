"""``python -m tests.peers.message_tables``: the field tables of Kafka's messages, from Apache Kafka's own definitions.

Kafka's clients jar has a JSON file for each message, its metadata jar one for each record of KRaft's metadata log, and
its storage jar one for each record of tiered storage. This command writes those that a ZooKeeper-mode broker, its
clients and its tools use to ``messages`` and ``metadata_records`` in ``kafka_zk/protocol``: fields, types, versions,
tags and defaults, without Kafka's comments. ``--check`` only compares. The command fetches the jars with Maven.
"""

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import kafka_zk.protocol
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.metadata_record import RecordType
from tests.peers.jars import ORACLE_VERSION, jars

_PROTOCOL = Path(kafka_zk.protocol.__file__).parent
MESSAGES = _PROTOCOL / "messages"
RECORDS = _PROTOCOL / "metadata_records"

_OF_KRAFT_NODES = (ApiKey.DESCRIBE_QUORUM, ApiKey.FETCH_SNAPSHOT)
"""Requests that our clients send to nodes without ZooKeeper."""

_OF_REMOTE_LOGS = range(3)
"""The records of ``__remote_log_metadata``; the fourth kind is only in files of the brokers' cache."""

_OF_KRAFT_CONTROLLERS = (ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT)
"""Requests of the stand-ins of a rehearsed migration to a controller."""

_FIELD_KEYS = ("name", "type", "versions", "nullableVersions", "tag", "taggedVersions", "default")


def tables() -> Iterator[tuple[Path, str]]:
    """The path of each table and its text. Raises: JarsNotResolved."""
    offered_too = BROKER_VERSIONS.keys() & {*_OF_KRAFT_NODES, *_OF_KRAFT_CONTROLLERS}
    assert not offered_too, f"a broker offers {offered_too}: remove them from the lists of KRaft APIs"
    messages = {int(key) for key in (*BROKER_VERSIONS, *_OF_KRAFT_NODES, *_OF_KRAFT_CONTROLLERS)}
    yield from _tables("clients", r"common/message/\w+(Request|Response)\.json", messages, MESSAGES)
    yield from _tables("metadata", r"common/metadata/\w+Record\.json", {int(key) for key in RecordType}, RECORDS)
    yield from _tables("storage", r"message/Remote\w+Record\.json", _OF_REMOTE_LOGS, MESSAGES)


def _tables(part: str, pattern: str, wanted: Container[int], folder: Path) -> Iterator[tuple[Path, str]]:
    with zipfile.ZipFile(jars(ORACLE_VERSION) / f"kafka-{part}-{ORACLE_VERSION}.jar") as archive:
        for entry in sorted(archive.namelist()):
            if re.fullmatch(pattern, entry):
                message = json.loads(_without_comments(archive.read(entry).decode()))
                if message["apiKey"] in wanted:
                    yield folder / f"{message['name']}.json", _text(message)


def _without_comments(text: str) -> str:
    return re.sub(r"(?m)(^|\s)//.*$", "", text)


def _text(message: Mapping[str, Any]) -> str:
    head = {key: message[key] for key in ("apiKey", "type", "name", "validVersions", "flexibleVersions")}
    structs = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", ())}
    rows = ",\n".join(_rows(message["fields"], structs, "  "))
    return f'{json.dumps(head)[:-1]}, "fields": [\n{rows}\n]}}\n'


def _rows(fields: Sequence[Mapping[str, Any]], structs: Mapping[str, Any], indent: str) -> Iterator[str]:
    """A line for each field; the fields of a struct follow it, further in."""
    for field in fields:
        row = json.dumps({key: field[key] for key in _FIELD_KEYS if key in field})
        inner = field.get("fields", structs.get(field["type"].removeprefix("[]")))
        if inner is None:
            yield indent + row
        else:
            below = ",\n".join(_rows(inner, structs, indent + "  "))
            yield f'{indent}{row[:-1]}, "fields": [\n{below}]}}'


def differences() -> list[str]:
    """The messages whose shipped table is not Kafka's. Raises: JarsNotResolved."""
    expected = dict(tables())
    shipped = {path: path.read_text() for path in _shipped()}
    return sorted(path.stem for path in expected.keys() | shipped.keys() if expected.get(path) != shipped.get(path))


def _shipped() -> list[Path]:
    return [path for folder in (MESSAGES, RECORDS) for path in folder.glob("*.json")]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.peers.message_tables", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit code 1 if a table differs")
    options = parser.parse_args(arguments)
    if options.check:
        different = differences()
        print("\n".join(different) if different else "every table is Apache Kafka's")
        return 1 if different else 0
    written = list(tables())
    for path in _shipped():
        path.unlink()
    for path, text in written:
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
