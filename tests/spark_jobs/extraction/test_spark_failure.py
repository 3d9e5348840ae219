"""One sentence from each form of Spark's errors."""

import pytest

from kafka_zk.spark_jobs.extraction.spark_failure import advice, first_line, reason

_JAVA = """An error occurred while calling o45.getFileSystem.
: org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "foo"
\tat org.apache.hadoop.fs.FileSystem.getFileSystemClass(FileSystem.java:3573)
"""
_JOB = """An error occurred while calling o60.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2785)
Caused by: java.lang.RuntimeException: between
\tat a.b.C.d(E.java:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
_WORKER_DIED = """An error occurred while calling o62.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 0.0: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). \
Consider setting 'spark.python.worker.faulthandler.enabled'.
\tat org.apache.spark.api.python.BasePythonRunner.applyOrElse(PythonRunner.scala:1136)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:4568)
Caused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting \
'spark.python.worker.faulthandler.enabled'.
\tat org.apache.spark.api.python.BasePythonRunner.applyOrElse(PythonRunner.scala:1136)
Caused by: java.io.EOFException
"""
_EXECUTOR_LOST = """An error occurred while calling o62.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 0.0 (TID 3): ExecutorLostFailure (executor 3 exited): Command exited with code 137
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:4568)
"""
_TASK = """Job aborted: Traceback (most recent call last):
  File "range_fetcher.py", line 1, in fetch
kafka_zk.spark_jobs.errors.DataLoss: offsets 0 to 19 of t-0 are missing: the log starts at offset 20

Caused by: org.apache.spark.SparkException: something else
"""


def test_the_first_line_without_packages_and_codes() -> None:
    assert first_line(Exception(_JAVA)) == 'UnsupportedFileSystemException: No FileSystem for scheme "foo"'
    assert first_line(Exception("[PARSE_SYNTAX_ERROR] Syntax error at 'X'. SQLSTATE: 42601 (line 1)\n\n== SQL ==")) == (
        "[PARSE_SYNTAX_ERROR] Syntax error at 'X'. (line 1)"
    )
    assert first_line(ValueError()) == "ValueError"


def test_a_jobs_reason_is_the_deepest_cause_or_what_our_code_said() -> None:
    assert reason(Exception(_JOB)) == "IOException: No space left on device"
    assert reason(Exception(_TASK)) == "offsets 0 to 19 of t-0 are missing: the log starts at offset 20"
    assert reason(Exception("Could not parse Master URL: 'foo'")) == "Could not parse Master URL: 'foo'"


def test_a_worker_that_died_is_told_and_not_the_end_of_its_stream() -> None:
    assert reason(Exception(_WORKER_DIED)) == "Python worker exited unexpectedly (crashed)"


def test_an_executor_that_was_lost_too_often_is_told_in_sparks_words() -> None:
    told = reason(Exception(_EXECUTOR_LOST))
    assert told.startswith("Job aborted due to stage failure: ") and told.endswith("exited with code 137")


_MISSING = """An error occurred while calling o70.save.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/lake. SQLSTATE: 58030
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 4207, in invoke_udf
    func, profiler, deserializer, serializer = read_udfs(
                                               ^^^^^^^^^^
{raised}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
Caused by: java.io.EOFException: the end
"""


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (
            "ModuleNotFoundError: No module named 'kafka_zk'",
            "the Python of the executors lacks kafka_zk: install kafka-zk[spark] there, and give its interpreter in "
            "PYSPARK_PYTHON",
        ),
        ("ValueError: odd", "ValueError: odd"),
    ],
)
def test_the_end_of_a_traceback_is_told_and_not_its_beginning(raised: str, told: str) -> None:
    assert reason(Exception(_MISSING.format(raised=raised))) == told


@pytest.mark.parametrize(
    ("text", "is_repeated"),
    [
        (_WORKER_DIED, True),
        (_EXECUTOR_LOST, True),
        (_JOB, True),
        ("[DELTA_CONCURRENT_APPEND] Files were added by a concurrent update.", True),
        (_MISSING.format(raised="ModuleNotFoundError: No module named 'kafka_zk'"), False),
        ("[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: id.", False),
        ("[NOT_NULL_ASSERT_VIOLATION] NULL value appeared in non-nullable field: id", False),
        ("RuntimeException: file:/t/_delta_log/00000000000000000010.checkpoint.parquet is not a Parquet file", False),
        ("org.apache.spark.sql.AnalysisException: [INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA] Cannot write", False),
    ],
)
def test_a_repetition_is_advised_only_where_it_helps(text: str, is_repeated: bool) -> None:
    assert ("run it again" in advice(Exception(text))) is is_repeated
    assert ("running it again would fail, too" in advice(Exception(text))) is not is_repeated
