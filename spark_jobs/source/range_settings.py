"""The settings that the driver sends to executors with their ranges."""

from typing import NamedTuple

from kafka_zk.spark_jobs.source.cluster_client import ClientSettings


class FetchSettings(NamedTuple):
    """Sizes in bytes. ``max_bytes``: limit of a response. At most two responses are in memory. ``columns``: the columns
    to return; None for all.
    """

    client: ClientSettings
    include_headers: bool = False
    fail_on_data_loss: bool = True
    max_bytes: int = 4 * 1024 * 1024
    max_wait_ms: int = 500
    check_crcs: bool = True
    skip_unreadable: bool = False
    columns: tuple[str, ...] | None = None
