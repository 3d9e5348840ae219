"""Results of topics, as rows and as exit codes."""

import pytest

from kafka_zk.spark_jobs.errors import ExtractionFailed, ForeignCommit, GroupBusy
from kafka_zk.spark_jobs.extraction.database import results
from kafka_zk.spark_jobs.extraction.database.results import Outcome, TopicResult
from kafka_zk.spark_jobs.extraction.planning import PartitionReport, Report

IDLE = Report((), 0, 0, (), "nothing", seconds=0.04)
DONE = Report((PartitionReport("t", 0, 5, 12, 7, 0),), 7, 0, ("lake/t",), "nothing", seconds=1.26)
SHORT = Report((), 1, 0, ("lake/t",), "nothing", short=1234)
PUBLISHED_LEFTOVER = Report((), 0, 0, ("lake/t",), "its folder is published")


@pytest.mark.parametrize(
    ("report", "is_plan", "outcome", "records"),
    [
        (IDLE, False, Outcome.NOTHING_NEW, 0),
        (DONE, False, Outcome.EXTRACTED, 7),
        (SHORT, False, Outcome.SHORT, 1),
        (PUBLISHED_LEFTOVER, False, Outcome.EXTRACTED, 0),
        (DONE, True, Outcome.PLANNED, 7),
        (IDLE, True, Outcome.NOTHING_NEW, 0),
    ],
)
def test_a_report_says_what_became_of_a_topic(report: Report, is_plan: bool, outcome: Outcome, records: int) -> None:
    result = results.reported("t", "lake/t", "g.t", report, is_plan=is_plan)
    assert (result.outcome, result.records) == (outcome, records)


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [
        (GroupBusy("x"), Outcome.BUSY, 3),
        (ForeignCommit("x"), Outcome.OVERTAKEN, 4),
        (ExtractionFailed("x"), Outcome.FAILED, 1),
        (KeyError("x"), Outcome.FAILED, 1),
    ],
)
def test_an_error_has_the_exit_code_that_it_has_alone(error: Exception, outcome: Outcome, code: int) -> None:
    result = results.failed("t", "lake/t", "g.t", error, "x")
    assert (result.outcome, result.reason, results.exit_code([result])) == (outcome, "x", code)


def test_all_topics_done_is_0_and_failures_come_before_what_passes() -> None:
    well = [TopicResult("t", "", each) for each in
            (Outcome.EXTRACTED, Outcome.NOTHING_NEW, Outcome.EMPTY, Outcome.LEFT_OUT, Outcome.PLANNED)]  # fmt: skip
    assert results.exit_code(well) == 0
    order = [Outcome.SHORT, Outcome.OVERTAKEN, Outcome.BUSY, Outcome.NOT_TRIED, Outcome.FAILED]
    worse = [TopicResult("t", "", each) for each in order]
    assert [results.exit_code([*well, *worse[:count]]) for count in range(1, 6)] == [5, 4, 3, 1, 1]


def test_rows_and_documents_have_the_reason() -> None:
    done = results.reported("t", "lake/t", "g.t", DONE, is_plan=False)
    out = TopicResult("shop.message", "", Outcome.LEFT_OUT, "messages")
    assert done.as_row() == {"topic": "t", "table": "lake/t", "records": 7, "seconds": "1.3", "result": "extracted"}
    assert out.as_row() == {
        "topic": "shop.message", "table": None, "records": None, "seconds": None, "result": "left out: messages"
    }  # fmt: skip
    assert done.as_document()["report"]["published"] == ["lake/t"]
    assert (out.as_document()["reason"], out.as_document()["group"]) == ("messages", None)
    assert results.summary([done, out, out]) == "3 topics: 1 extracted, 2 left out"
