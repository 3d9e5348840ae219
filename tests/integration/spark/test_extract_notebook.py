"""examples/extract.ipynb extracts a topic twice; its last cell checks that every record is there once."""

from pathlib import Path

import pytest

from tests.notebooks import executed, printed

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.mark.weekly
def test_it_extracts_a_topic_twice(tmp_path: Path) -> None:
    text = printed(executed("extract.ipynb", tmp_path))
    assert "300 records are new" in text
    assert "60 more records" in text
    assert text.count("range=flights@") == 2
