"""The packages for a value format: the extra ``registry``."""

import importlib.util

from kafka_zk.spark_jobs.values.value_decoder import AVRO, JSON_SCHEMA, PROTOBUF

_PACKAGES = {AVRO: ("fastavro",), PROTOBUF: ("google.protobuf", "grpc_tools"), JSON_SCHEMA: ("jsonschema",)}


def absent_value_packages(value_format: str | None) -> str | None:
    """One sentence; None if all are installed, or the format needs none."""
    absent = [name for name in _PACKAGES.get(value_format or "", ()) if not _is_there(name)]
    if not absent:
        return None
    return f"decoding {value_format} needs {', '.join(absent)}: pip install 'kafka-zk[spark,registry]'"


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
