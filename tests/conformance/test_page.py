"""The published table comes from the published results."""

import json

from tests.conformance.page import PAGE, RESULTS, table


def test_the_page_has_the_table_of_the_results() -> None:
    assert table(json.loads(RESULTS.read_text())) in PAGE.read_text()
