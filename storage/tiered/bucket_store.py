"""A bucket of S3, GCS or Azure, by the library obstore of the extra ``[tiered]``.

Keys and secrets come only from the environment, under the names that the library and the providers' own tools use
(AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY …).
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from kafka_zk.storage.tiered.object_store import NoSuchObject, ObjectStoreError, ObjectTooLarge, StoredObject

_REQUEST_TIMEOUT = timedelta(seconds=30)
_RETRY_TIMEOUT = timedelta(seconds=60)
_RETRY_COUNT = 4
_PAGE = 1000


class BucketStore:
    """Keys are relative to the bucket. Each request takes at most 30 s, with its retries at most 90 s."""

    def __init__(self, library: Any, store: Any) -> None:
        self._library = library
        self._store = store

    @classmethod
    def open(cls, url: str) -> "BucketStore":
        """``url``: s3://BUCKET, gs://BUCKET or az://CONTAINER. Raises ObjectStoreError."""
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise ObjectStoreError(f"{url} needs kafka-zk[tiered]: pip install 'kafka-zk[tiered]'") from None
        try:
            store = from_url(
                url,
                client_options={
                    "timeout": _REQUEST_TIMEOUT,
                    "connect_timeout": _REQUEST_TIMEOUT,
                    "allow_http": True,  # only if the environment names such an address
                },
                retry_config={"max_retries": _RETRY_COUNT, "retry_timeout": _RETRY_TIMEOUT},
            )
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise ObjectStoreError(f"{url}: {_sentence(error)}") from None
        return cls(obstore, store)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        folder, _, name = prefix.rpartition("/")
        try:
            if not name:
                yield from self._below(folder, prefix)
                return
            found = self._library.list_with_delimiter(self._store, prefix=folder or None)
            for each in found["objects"]:
                if each["path"].startswith(prefix):
                    yield StoredObject(each["path"], each["size"])
            for each in found["common_prefixes"]:
                if each.startswith(prefix):
                    yield from self._below(each, prefix)
        except (self._library.exceptions.BaseError, OSError) as error:
            raise ObjectStoreError(f"listing {prefix or 'the bucket'}: {_sentence(error)}") from None

    def _below(self, folder: str, prefix: str) -> Iterator[StoredObject]:
        for page in self._library.list(self._store, prefix=folder or None, chunk_size=_PAGE):
            for each in page:
                if each["path"].startswith(prefix):
                    yield StoredObject(each["path"], each["size"])

    def get(self, key: str, most_bytes: int) -> bytes:
        try:
            found = self._library.get(self._store, key)
            if found.meta["size"] > most_bytes:
                raise ObjectTooLarge(f"{key} has more than {most_bytes} bytes")
            return bytes(found.bytes())
        except FileNotFoundError:
            raise NoSuchObject(f"{key} does not exist") from None
        except (self._library.exceptions.BaseError, OSError) as error:
            raise ObjectStoreError(f"{key}: {_sentence(error)}") from None


def _sentence(error: Exception) -> str:
    """The first line, which names no secret, without the queries of addresses, which may contain a signature."""
    first = str(error).partition("\n")[0]
    return " ".join(word.partition("?")[0] for word in first.split())[:300]
