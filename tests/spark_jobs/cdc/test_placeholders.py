"""The forms of the placeholder."""

import pytest

from kafka_zk.spark_jobs.cdc.placeholders import TEXT, is_placeholder


@pytest.mark.parametrize(
    "value", [TEXT, TEXT.encode(), "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", [TEXT], {TEXT: TEXT}]
)
def test_each_form_is_known(value: object) -> None:
    assert is_placeholder(value)


@pytest.mark.parametrize("value", [None, "", "text", [], [TEXT, "more"], [1], {}, {"k": TEXT}, 0, [[TEXT]]])
def test_other_values_are_values(value: object) -> None:
    assert not is_placeholder(value)
