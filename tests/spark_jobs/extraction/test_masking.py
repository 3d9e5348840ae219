"""Masks of columns, without Spark."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction import masking
from kafka_zk.spark_jobs.extraction.masking import Mask
from kafka_zk.spark_jobs.extraction.planning import Extraction

KEY = b"0123456789abcdef"
COLUMNS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("email", StringType()),
        StructField("card", LongType()),
        StructField("tags", ArrayType(StringType())),
    ]
)


def asked(*mask: str, key: bytes | None = None, **more: Any) -> Extraction:
    return Extraction(zookeeper="z", group="g", topics=("t",), target="/t", mask=mask, mask_key=key, **more)


def test_a_mask_is_a_column_and_a_kind() -> None:
    assert asked("email=hmac", "a=b=null", key=KEY).masks == [Mask("email", "hmac"), Mask("a=b", "null")]


@pytest.mark.parametrize(
    ("mask", "key", "told"),
    [
        (("email",), None, "'email' is not COLUMN=KIND, where KIND is hmac, null or keep4"),
        (("email=md5",), None, "'email=md5' is not COLUMN=KIND"),
        (("=null",), None, "'=null' is not COLUMN=KIND"),
        (("email=null", "Email=keep4"), None, "email is listed twice"),
        (("email=hmac",), None, "must be given together"),
        (("email=null",), KEY, "must be given together"),
        ((), KEY, "must be given together"),
        (("email=hmac",), b"short", "must have 16 to 4,096 bytes"),
        (("email=hmac",), b"x" * 4097, "must have 16 to 4,096 bytes"),
    ],
)
def test_wrong_masks_are_refused_without_the_key(mask: tuple[str, ...], key: bytes | None, told: str) -> None:
    with pytest.raises(WronglyAsked, match=told) as refused:
        asked(*mask, key=key)
    assert "short" not in str(refused.value) and "xxx" not in str(refused.value)


@pytest.mark.parametrize(
    "more",
    [
        {"dead_letter_topic": "d", "decode": "string"},
        {"on_undecodable": "keep", "decode": "string"},
        {"cdc": "keyed", "format": "delta", "schema": "id INT"},
    ],
    ids=lambda each: next(iter(each)),
)
def test_what_stores_values_as_they_came_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(WronglyAsked, match="--mask cannot be combined with"):
        asked("email=null", **more)


def test_the_key_is_not_shown() -> None:
    extraction = replace(asked("email=hmac", key=KEY), target="/other")
    assert KEY.decode() not in repr(extraction) and extraction.mask_key == KEY


def test_white_space_around_a_key_does_not_count_and_a_long_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b" " + KEY + b"\n")
    assert masking.read_key(tmp_path / "key") == KEY
    (tmp_path / "key").write_bytes(b"x" * 10_000)
    assert len(masking.read_key(tmp_path / "key")) == 4097


@pytest.mark.parametrize("data", [b"x" * 4096 + b"\ny", b" " + b"x" * 4096 + b"y"])
def test_a_key_that_is_too_long_is_refused_and_not_cut(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "key").write_bytes(data)
    with pytest.raises(WronglyAsked, match="must have 16 to 4,096 bytes"):
        asked("email=hmac", key=masking.read_key(tmp_path / "key"))


def test_a_digest_is_that_of_hmac_sha_256_of_bytes_and_of_text_as_utf_8() -> None:
    expected = hmac.new(KEY, "é@x".encode(), hashlib.sha256).hexdigest()
    assert masking.digest(KEY, "é@x") == masking.digest(KEY, "é@x".encode()) == expected
    assert masking.digest(KEY, None) is None
    assert masking.digest(KEY, "") == hmac.new(KEY, b"", hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("value", "mask"),
    [("4111111111111234", "************1234"), ("12345", "*2345"), ("1234", "****"), ("", ""), (None, None)],
)
def test_four_characters_stay_of_more(value: str | None, mask: str | None) -> None:
    assert masking.keep4(value) == mask


@pytest.mark.parametrize(
    ("mask", "told"),
    [
        (Mask("nope", "null"), "there is no column nope, only key, email, card, tags"),
        (Mask("tags", "hmac"), "tags is array<string>: only null can mask it"),
        (Mask("key", "keep4"), "key is binary: only null can mask it"),
    ],
)
def test_masks_must_fit_their_columns(mask: Mask, told: str) -> None:
    with pytest.raises(WronglyAsked, match=told):
        masking.check_columns([mask], COLUMNS)


def test_masks_that_fit_are_accepted() -> None:
    fitting = [Mask("tags", "null"), Mask("KEY", "hmac"), Mask("card", "keep4"), Mask("email", "hmac")]
    masking.check_columns(fitting, COLUMNS)


def test_a_name_of_two_columns_is_refused() -> None:
    """With spark.sql.caseSensitive, Spark distinguishes them, and the mask would hide only one."""
    columns = StructType([StructField("email", StringType()), StructField("Email", StringType())])
    with pytest.raises(WronglyAsked, match="several column names differ only in case: email"):
        masking.check_columns([Mask("email", "null")], columns)
