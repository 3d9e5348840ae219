"""Decides what happens to values that --decode cannot decode."""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition

FAIL, NULL, KEEP = "fail", "null", "keep"
CHOICES = (FAIL, NULL, KEEP)
RAW_VALUE, RAW_KEY = "raw_value", "raw_key"
"""Columns with the original bytes, null for a value or key that was decoded."""
_MEANING = {
    "json": "JSON that matches the schema",
    "avro": "Avro that matches the schema",
    "string": "UTF-8 text",
    **{f"registry {name}": f"{name} of a schema in the registry" for name in ("avro", "protobuf", "json-schema")},
}


class Staged(NamedTuple):
    """What a staging folder contains. ``values``: number of records with a value, or with an undecodable key.
    ``undecodable``: number of records whose key or value is undecodable. ``keys``: number of records whose key is
    undecodable. ``first``: the place of the first undecodable record, and the reason. ``spark_because``: why Spark's
    writer wrote the files; None if the executors did.
    """

    records: int
    values: int = 0
    undecodable: int = 0
    first: str = ""
    keys: int = 0
    spark_because: str | None = None

    @property
    def writer(self) -> str:
        """Who wrote the files, in the words of the report."""
        return "executors" if self.spark_because is None else f"Spark, because of {self.spark_because}"


def place(topic: str, partition: int, offset: int, reason: str | None) -> str:
    """``first`` of ``Staged``."""
    told = f"offset {offset} of {TopicPartition(topic, partition)}"
    return f"{told}: {reason}" if reason else told


NOTHING_STAGED = Staged(0)


def meaning(decoding: str) -> str:
    """Describe a value that can be decoded. ``decoding``: as ``Extraction.decoding``."""
    return _MEANING[decoding]


def refusal(
    staged: Staged, decoding: str | None, on_undecodable: str, *, dead_letters: bool = False, keys: str = "UTF-8 text"
) -> str | None:
    """Why the staged records must not be published. ``dead_letters``: undecodable records are sent to a topic, so none
    is lost. ``keys``: describes a decodable key.
    """
    none_fits = staged.undecodable == staged.values
    if dead_letters or not staged.undecodable or not (none_fits or on_undecodable == FAIL):
        return None
    if staged.keys:
        return (
            f"{staged.keys:,} keys are not {keys} (the first record that cannot be decoded is at {staged.first}), so "
            "nothing was published: give their format with --key-format, where bytes keeps them as they are"
        )
    assert decoding is not None, "bytes are not decoded"
    wanted = meaning(decoding)
    if none_fits:
        return (
            f"none of the {staged.values:,} values is {wanted} (the first is at {staged.first}), so nothing was "
            "published: --decode, --value-format or --schema does not match the topic"
        )
    return (
        f"{staged.undecodable:,} of {staged.values:,} values are not {wanted} (the first is at {staged.first}), "
        f"so nothing was published: give --on-undecodable {NULL} or {KEEP} to extract them"
    )
