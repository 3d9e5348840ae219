"""The summary of a bench run that docs/ keeps (``summary``)."""

import json

from tests.bench.summary import summary, text


def test_samples_are_grouped_by_what_was_measured() -> None:
    samples = [
        {"workload": "a", "target": "ours", "round": 0, "outcome": {"seconds": 3.0}, "records": 10},
        {"workload": "a", "target": "ours", "round": 1, "outcome": {"seconds": 1.0}, "records": 10},
        {"workload": "a", "target": "ours", "round": 2, "outcome": {"seconds": 2.0}, "records": 10},
        {"workload": "a", "target": "theirs", "round": 0, "outcome": {"seconds": 5.0}, "records": 10},
    ]
    assert summary(samples) == [
        {
            "workload": "a",
            "target": "ours",
            "samples": 3,
            "seconds": {"min": 1.0, "median": 2.0, "max": 3.0},
            "records": 10,
        },
        {"workload": "a", "target": "theirs", "samples": 1, "seconds": 5.0, "records": 10},
    ]


def test_a_list_of_figures_becomes_its_median_and_range() -> None:
    assert summary({"ms": [4, 1, 3], "by_partition": {"0": 1.0, "1": 2.0, "2": 9.0}}) == {
        "ms": {"min": 1, "median": 3, "max": 4},
        "by_partition": {"min": 1.0, "median": 2.0, "max": 9.0},
    }


def test_facts_and_figures_that_are_summaries_already_stay() -> None:
    facts = {"commit": "abc", "cores": 2, "figures": [{"name": "rate", "unit": "records/s", "ratio_range": [0.9, 1.2]}]}
    assert summary(facts) == facts


def test_the_text_is_json_with_a_line_for_each_group() -> None:
    kept = {"commit": "abc", "samples": [{"workload": "a"}, {"workload": "b"}], "none": []}
    written = text(kept)
    assert json.loads(written) == kept
    assert len(written.splitlines()) == 8
