"""Finds the columns of each topic's table: in a file from the user, or else, for ``--cdc``, in the topic's schema."""

from pathlib import Path

from kafka_zk.spark_jobs.cdc import row_schemas
from kafka_zk.spark_jobs.cdc.given_types import with_ends
from kafka_zk.spark_jobs.errors import ChangeRefused, WronglyAsked
from kafka_zk.spark_jobs.extraction.database.name_templates import NameTemplate
from kafka_zk.spark_jobs.extraction.database.newest_value import newest_value
from kafka_zk.spark_jobs.source.cluster_client import ClusterClient
from kafka_zk.spark_jobs.values.schema_registry import Schema, SchemaRegistry, registry_at

_FRAME_BYTES = 5
"""Size of Confluent's framing: a zero byte and the schema id."""


class NoColumns(WronglyAsked):
    """No readable record of the topic has a value, because retention or compaction removed all records that had one, or
    an open transaction hides them."""


class TableSchemas:
    """``files``: a file for each table, beginning with @. ``registry``: the schema registry's URL for Avro; None for
    JSON."""

    def __init__(self, brokers: ClusterClient, files: NameTemplate | None, registry: str | None) -> None:
        self._brokers = brokers
        self._files = files
        self._registry = registry

    def given(self, topic: str) -> str | None:
        """The content of the table's file; None if there is no file. Raises WronglyAsked, OSError."""
        if self._files is None:
            return None
        try:
            return self._file(self._files, topic).read_text("utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise WronglyAsked(f"--schema: {self._file(self._files, topic)} is not text in UTF-8") from error

    def required(self, topic: str) -> str:
        """Like ``given``, but also raises WronglyAsked if there is no file."""
        if (found := self.given(topic)) is None:
            raise WronglyAsked(f"nothing says the columns of topic {topic}: {self._way_out(topic)}")
        return found

    def of_events(self, topic: str) -> str | None:
        """The columns of the table for a topic with change events; None if the topic never had a record.

        Raises NoColumns, WronglyAsked if the columns cannot be found out, ChangeRefused if the schema is not that of a
        table, RegistryFailed, FetchFailed.
        """
        if (given := self.given(topic)) is not None:
            return given
        try:
            return self._of_json(topic) if self._registry is None else self._of_avro(topic, self._registry)
        except ChangeRefused as error:
            raise ChangeRefused(f"{error}; {self._way_out(topic)}") from error

    def _of_json(self, topic: str) -> str | None:
        found = newest_value(topic, self._brokers)
        if not found.had_records:
            return None
        if found.value is None:
            raise NoColumns(f"no record of topic {topic} has a value that says its columns: {self._way_out(topic)}")
        text = row_schemas.of_json_value(found.value)
        if text is None:
            raise WronglyAsked(f"the JSON in topic {topic} has no schemas: {self._way_out(topic)}")
        return with_ends(text, found.ends)

    def _of_avro(self, topic: str, url: str) -> str | None:
        registry, subject = registry_at(url), f"{topic}-value"
        found = newest_value(topic, self._brokers)
        if versions := registry.learn(subject):  # after the newest record was read, so they include its version
            text = row_schemas.of_avro_versions(versions, subject, _written(found.value, registry))
            return with_ends(text, found.ends)
        if not found.had_records:
            return None
        raise WronglyAsked(f"the schema registry has no subject {subject}: {self._way_out(topic)}")

    def _way_out(self, topic: str) -> str:
        if self._files is None:
            return "give the tables' columns in files, with --schema '@FOLDER/{table}.sql'"
        return f"give the table's columns in {self._file(self._files, topic)}"

    @staticmethod
    def _file(files: NameTemplate, topic: str) -> Path:
        return Path(files.filled(topic).removeprefix("@"))


def _written(value: bytes | None, registry: SchemaRegistry) -> Schema | None:
    """The schema of a value in Confluent's framing; None if it has none."""
    if value is None or len(value) < _FRAME_BYTES or value[0] != 0:
        return None
    return registry.by_id(int.from_bytes(value[1:_FRAME_BYTES], "big"))
