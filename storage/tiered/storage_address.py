"""Opens the folder or bucket that ``--storage`` names, with the layout of the plugin that wrote it."""

import re
from typing import NamedTuple
from urllib.parse import unquote

from kafka_zk.storage.files import files
from kafka_zk.storage.tiered.aiven_layout import AivenLayout
from kafka_zk.storage.tiered.bucket_store import BucketStore
from kafka_zk.storage.tiered.layout import Layout
from kafka_zk.storage.tiered.local_tiered_storage import FOLDER, LocalTieredStorageLayout
from kafka_zk.storage.tiered.object_store import FolderStore, ObjectStoreError, WritableStore

_BUCKET = re.compile(r"((?:s3|gs|az)://[^/?#@]+)(?:/([^?#]*))?")


class TieredStorage(NamedTuple):
    store: WritableStore
    layout: Layout


def open_storage(address: str) -> TieredStorage:
    """``address``: a folder, or s3://BUCKET/KEY.PREFIX (gs://, az://). A folder that contains
    ``kafka-tiered-storage`` was written by Kafka's LocalTieredStorage; anything else, by Aiven's plugin.

    Raises: ObjectStoreError.
    """
    if "://" in address and not address.startswith("file://"):
        bucket = _BUCKET.fullmatch(address)
        if bucket is None:
            scheme = address.partition("://")[0]
            raise ObjectStoreError(
                f"{scheme}: the storage must be a folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
            )
        return TieredStorage(BucketStore.open(bucket[1]), AivenLayout(bucket[2] or ""))
    root = unquote(address.removeprefix("file://")) if address.startswith("file://") else address
    if not files.is_directory(root):
        raise ObjectStoreError(f"{root} is not a folder")
    layout = LocalTieredStorageLayout() if files.is_directory(f"{root}/{FOLDER}") else AivenLayout("")
    return TieredStorage(FolderStore(root), layout)
