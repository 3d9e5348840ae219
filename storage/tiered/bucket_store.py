"""A bucket of S3, GCS or Azure, accessed with the library obstore of the extra ``[tiered]``.

Keys and secrets that are not given come from the environment, under the names that the library and the providers' own
tools use (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY …). They appear in no error. The
address of a server other than Amazon's comes from AWS_ENDPOINT_URL only if the bucket is opened by its URL.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from typing import Any

from kafka_zk.base.clock import monotonic_s
from kafka_zk.storage.tiered.object_store import NoSuchObject, ObjectStoreError, ObjectTooLarge, StoredObject

_REQUEST_TIMEOUT = timedelta(seconds=30)
_RETRY_TIMEOUT = timedelta(seconds=60)
_RETRY_COUNT = 4
_PAGE = 1000
_LEAST_PART_BYTES = 5 << 20
_MOST_UPLOAD_S = 1800
"""Time limit for one object. After it, the broker has abandoned the copy; a leader deletes unfinished copies after two
hours."""
_MISSING_KEY = re.compile(r"<Code>NoSuchKey</Code>|\(code: NoSuchKey\)")
_ERROR_CODE = re.compile(r"<Code>(\w{1,60})</Code>")


@dataclass(frozen=True)
class S3Credentials:
    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(repr=False, default=None)


@dataclass(frozen=True)
class S3Bucket:
    """``endpoint_url``: the URL of a server other than Amazon's; the environment's URL is not used. ``is_path_style``:
    the bucket is in the URL's path, not in its host. ``credentials``: None uses those in the environment.
    ``part_bytes``: size of the parts of an upload, at least 5 MiB."""

    name: str
    region: str
    endpoint_url: str | None = None
    is_path_style: bool = False
    credentials: S3Credentials | None = None
    part_bytes: int = _LEAST_PART_BYTES

    @property
    def host_url(self) -> str:
        """The endpoint; its host includes the bucket unless ``is_path_style``."""
        url = self.endpoint_url or f"https://s3.{self.region}.amazonaws.com"
        if self.is_path_style:
            return url
        scheme, _, host = url.partition("://")
        return f"{scheme}://{self.name}.{host}"


class BucketStore:
    """Keys are relative to the bucket. Each request takes at most 30 s, with its retries at most 90 s.

    ``part_bytes``: larger objects are uploaded in parts of this size, of which two are in memory. ``secrets``: texts to
    remove from error messages.
    """

    def __init__(
        self, library: Any, store: Any, part_bytes: int = _LEAST_PART_BYTES, secrets: Sequence[str] = ()
    ) -> None:
        self._library = library
        self._store = store
        self._part_bytes = part_bytes
        self._secrets = secrets

    @classmethod
    def open(cls, url: str) -> "BucketStore":
        """``url``: s3://BUCKET, gs://BUCKET or az://CONTAINER. Raises ObjectStoreError."""
        obstore = _library(url)
        from obstore.store import from_url

        try:
            store = from_url(url, client_options=_client_options(True), retry_config=_retry_config())
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise ObjectStoreError(f"{url}: {_sentence(error)}") from None
        return cls(obstore, store)

    @classmethod
    def open_s3(cls, bucket: S3Bucket) -> "BucketStore":
        """Raises ObjectStoreError."""
        obstore = _library(f"the bucket {bucket.name}")
        from obstore.store import S3Store

        given, secrets = bucket.credentials, []
        options: dict[str, Any] = {}
        if given is not None:  # a session token in the environment belongs to another key
            token = given.session_token
            secrets = [each for each in (given.access_key_id, given.secret_access_key, token) if each]
            found = {"access_key_id": given.access_key_id, "secret_access_key": given.secret_access_key}
            options["credential_provider"] = lambda: {**found, "token": token, "expires_at": None}
        try:
            store = S3Store(
                bucket.name,
                region=bucket.region,
                endpoint=bucket.host_url,
                virtual_hosted_style_request=not bucket.is_path_style,
                client_options=_client_options((bucket.endpoint_url or "").startswith("http://")),
                retry_config=_retry_config(),
                **options,
            )
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise ObjectStoreError(f"the bucket {bucket.name}: {_sentence(error, secrets)}") from None
        return cls(obstore, store, bucket.part_bytes, secrets)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        folder, _, name = prefix.rpartition("/")
        with self._errors_of(f"listing {prefix or 'the bucket'}"):
            if not name:
                yield from self._below(folder, prefix)
                return
            found = self._library.list_with_delimiter(self._store, prefix=folder or None)
            for each in found["objects"]:
                if each["path"].startswith(prefix):
                    yield _stored(each)
            for each in found["common_prefixes"]:
                if each.startswith(prefix):
                    yield from self._below(each, prefix)

    def _below(self, folder: str, prefix: str) -> Iterator[StoredObject]:
        for page in self._library.list(self._store, prefix=folder or None, chunk_size=_PAGE):
            for each in page:
                if each["path"].startswith(prefix):
                    yield _stored(each)

    def get(self, key: str, most_bytes: int) -> bytes:
        with self._errors_of(key):
            found = self._library.get(self._store, key)
            if found.meta["size"] > most_bytes:
                raise ObjectTooLarge(f"{key} has more than {most_bytes} bytes")
            return bytes(found.bytes())

    def get_range(self, key: str, position: int, size_bytes: int) -> bytes:
        with self._errors_of(key):
            return bytes(self._library.get_range(self._store, key, start=position, length=size_bytes))

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        """Store an object; also raises ObjectStoreError after half an hour."""
        rest, first = _in_time(key, parts), bytearray()
        for part in rest:
            first += part
            if len(first) > self._part_bytes:
                break
        is_whole = len(first) <= self._part_bytes
        data: bytes | Iterator[bytes] = bytes(first) if is_whole else chain((bytes(first),), rest)
        with self._errors_of(key, is_read=False):
            self._library.put(
                self._store,
                key,
                data,
                use_multipart=not is_whole,
                chunk_size=self._part_bytes,
                max_concurrency=1,
            )

    def delete(self, key: str) -> None:
        """A missing object is not an error, but any other 404 is: S3 servers name a missing key in the response, or
        report it as deleted."""
        with self._errors_of(key, is_read=False):
            try:
                self._library.delete(self._store, key)
            except (self._library.exceptions.BaseError, OSError) as error:
                if _MISSING_KEY.search(str(error)) is None:
                    raise

    @contextmanager
    def _errors_of(self, what: str, is_read: bool = True) -> Iterator[None]:
        """Convert the library's errors to ObjectStoreError, or for a read of a missing object to NoSuchObject."""
        try:
            yield
        except (self._library.exceptions.BaseError, OSError) as error:
            if is_read and isinstance(error, FileNotFoundError) and "<Code>NoSuchBucket</Code>" not in str(error):
                raise NoSuchObject(f"{what} does not exist") from None
            raise ObjectStoreError(f"{what}: {_sentence(error, self._secrets)}") from None


def _stored(meta: Any) -> StoredObject:
    return StoredObject(meta["path"], meta["size"], round(meta["last_modified"].timestamp() * 1000))


def _library(what: str) -> Any:
    try:
        import obstore
    except ImportError:
        raise ObjectStoreError(f"{what} needs kafka-zk[tiered]: pip install 'kafka-zk[tiered]'") from None
    return obstore


def _in_time(key: str, parts: Iterable[bytes]) -> Iterator[bytes]:
    """Raises: ObjectStoreError."""
    end_s = monotonic_s() + _MOST_UPLOAD_S
    for part in parts:
        if monotonic_s() > end_s:
            raise ObjectStoreError(f"{key}: the upload takes more than {_MOST_UPLOAD_S} s")
        yield part


def _client_options(may_be_plain: bool) -> Any:
    """``may_be_plain``: allow HTTP without TLS, which is used only if an endpoint's URL begins with ``http:``."""
    return {"timeout": _REQUEST_TIMEOUT, "connect_timeout": _REQUEST_TIMEOUT, "allow_http": may_be_plain}


def _retry_config() -> Any:
    return {"max_retries": _RETRY_COUNT, "retry_timeout": _RETRY_TIMEOUT}


def _sentence(error: Exception, secrets: Sequence[str] = ()) -> str:
    """The error's first line. Query strings of URLs are removed, because they may contain a signature. An XML document
    from the server is reduced to its error code, because the document may repeat the access key."""
    text, _, document = str(error).partition("<")
    first = " ".join(word.partition("?")[0] for word in text.partition("\n")[0].split()).rstrip(":")
    code = _ERROR_CODE.search(document)
    said = f"{first} ({code[1]})" if code else first
    for secret in secrets:
        said = said.replace(secret, "…")
    return said[:300]
