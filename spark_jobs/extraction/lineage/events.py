"""OpenLineage's events of an extraction: which topics became which folder or table. Pure.

Source: OpenLineage's schema OpenLineage.json 2-0-2, and its rules for naming datasets.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from kafka_zk.spark_jobs.extraction.planning import Extraction, Report
from kafka_zk.spark_jobs.extraction.table_formats import ICEBERG

START, COMPLETE, FAIL = "START", "COMPLETE", "FAIL"
_PRODUCER = "urn:kafka-zk:extract"
_SPEC = "https://openlineage.io/spec"
_RANGE = re.compile(r"[/ ]range=[^/ ]+$")
_S3 = ("s3a", "s3n")
_OF_KEYS = ("s3", "gs")
"""Object stores: their keys have no leading slash."""

Document = dict[str, Any]


class LineageRun(NamedTuple):
    """``namespace``: the namespace of the job, and of Iceberg tables, because only Spark's configuration knows their
    catalogs."""

    run_id: str
    namespace: str
    extraction: Extraction

    def started(self, now_ms: int) -> Document:
        return self._event(START, now_ms)

    def completed(self, now_ms: int, report: Report) -> Document:
        """A run without new records has no output."""
        inputs = [
            {"namespace": f"kafka://{report.brokers.partition(',')[0]}", "name": topic}
            for topic in sorted({each.topic for each in report.partitions})
        ]
        counted = _facet("1-0-2/OutputStatisticsOutputDatasetFacet", {"rowCount": report.records})
        outputs = [
            {**self._dataset(target), "outputFacets": {"outputStatistics": counted}}
            for target in sorted({_RANGE.sub("", each) for each in report.published})
        ]
        return self._event(COMPLETE, now_ms, inputs=inputs, outputs=outputs)

    def failed(self, now_ms: int, message: str) -> Document:
        told = _facet("1-0-1/ErrorMessageRunFacet", {"message": message, "programmingLanguage": "PYTHON"})
        return self._event(FAIL, now_ms, {"errorMessage": told})

    def _dataset(self, target: str) -> dict[str, str]:
        if self.extraction.format == ICEBERG:
            return {"namespace": self.namespace, "name": target}
        return dataset_of(target)

    def _event(
        self, kind: str, now_ms: int, facets: Mapping[str, Any] | None = None, inputs: Sequence[Document] = (),
        outputs: Sequence[Document] = (),
    ) -> Document:  # fmt: skip
        job_type = {"processingType": "BATCH", "integration": "KAFKA_ZK", "jobType": "JOB"}
        return {
            "eventType": kind,
            "eventTime": datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "run": {"runId": self.run_id, "facets": dict(facets or {})},
            "job": {
                "namespace": self.namespace,
                "name": f"extract.{self.extraction.progress_group}",
                "facets": {"jobType": _facet("2-0-4/JobTypeJobFacet", job_type)},
            },
            "inputs": list(inputs),
            "outputs": list(outputs),
            "producer": _PRODUCER,
            "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        }


def _facet(schema: str, content: Mapping[str, Any]) -> Document:
    name = schema.rpartition("/")[2]
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPEC}/facets/{schema}.json#/$defs/{name}", **content}


def dataset_of(uri: str) -> dict[str, str]:
    """The namespace and name of a folder: its store, and its path there."""
    parts = urlsplit(uri)
    path = unquote(parts.path).rstrip("/") or "/"
    if parts.scheme in ("", "file"):
        return {"namespace": "file", "name": path}
    scheme = "s3" if parts.scheme in _S3 else parts.scheme
    if scheme in _OF_KEYS:
        path = path.lstrip("/") or "/"
    return {"namespace": f"{scheme}://{parts.netloc}", "name": path}
