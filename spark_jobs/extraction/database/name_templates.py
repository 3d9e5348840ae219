"""Names with a placeholder for parts of a topic's name: ``lake.shop.{table}``, ``@schemas/{table}.sql``. Pure.

    {table}                 the last part: orders of shop.public.orders
    {schema}, {database}    the part before it: public
    {topic}                 the whole name
"""

import re

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.table_formats import ICEBERG

TABLE, SCHEMA, DATABASE, TOPIC = PLACEHOLDERS = ("table", "schema", "database", "topic")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_KNOWN = re.compile(rf"\{{(?:{'|'.join(PLACEHOLDERS)})\}}")
_PARTS = re.compile(r"`(?:[^`]|``)*`|[^.`]+")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Parts that need no backticks. Spark would read a part that consists of digits as a number."""


def is_file_per_table(schema: str) -> bool:
    """True if ``--schema`` names a file for each table; False if it names one file, or is itself a schema."""
    return schema.startswith("@") and _KNOWN.search(schema) is not None


class NameTemplate:
    """``option``: the option's name, for errors. Raises WronglyAsked for an unknown placeholder, or if neither {table}
    nor {topic} is there."""

    def __init__(self, text: str, option: str) -> None:
        self._text = text
        self._option = option
        names = _PLACEHOLDER.findall(text)
        told = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        if (unknown := next((name for name in names if name not in PLACEHOLDERS), None)) is not None:
            raise WronglyAsked(f"{option}: there is no placeholder {{{unknown}}}, only {told}")
        if TABLE not in names and TOPIC not in names:
            raise WronglyAsked(
                f"{option}: {text!r} is the same for all topics: --topic-pattern needs {{{TABLE}}} or {{{TOPIC}}} in it"
            )

    def filled(self, topic: str) -> str:
        """Raises WronglyAsked if the topic's name lacks a part."""
        return _PLACEHOLDER.sub(lambda found: self._part(topic, found[1]), self._text)

    def filled_target(self, topic: str, format: str) -> str:
        """Like ``filled``. In the name of an Iceberg table, parts get backticks where needed."""
        parts = _PARTS.findall(self._text)
        # A text that does not consist of such parts is not a table's name. It stays as it is, and is refused later.
        if format != ICEBERG or ".".join(parts) != self._text:
            return self.filled(topic)
        return ".".join(self._iceberg_part(topic, part) for part in parts)

    def _iceberg_part(self, topic: str, part: str) -> str:
        filled = _PLACEHOLDER.sub(lambda found: self._part(topic, found[1]), part)
        return filled if part.startswith("`") or _PLAIN.fullmatch(filled) else f"`{filled}`"

    def _part(self, topic: str, name: str) -> str:
        parts = topic.split(".")
        if name == TOPIC:
            return topic
        place = 1 if name == TABLE else 2
        found = parts[-place] if len(parts) >= place else ""
        if not found:
            raise WronglyAsked(f"{self._option}: the name of topic {topic} has no part for {{{name}}}")
        return found
