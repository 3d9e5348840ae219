"""A read-only client of Confluent's schema registry API: schemas by id, and the versions of a subject.

Schemas stay in memory, because an id's schema never changes. The object is sent to Spark's executors with its schemas,
so they request only new ids. Source: the "Schema Registry API Reference" of Confluent.
"""

import base64
import functools
import json
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from kafka_zk.spark_jobs.errors import SourceError
from kafka_zk.spark_jobs.waiting import within

_TIMEOUT_S = 30
"""Timeout for each part of a response."""
_ANSWER_S = 60.0
_VERSIONS_MAX = 10_000
_ANSWER_BYTES_MAX = 2**25
_REFERENCE_DEPTH_MAX = 32
_ABSENT_MAX = 10_000
"""Ids known to be absent; values without framing appear to have arbitrary ids."""
_NOT_FOUND = 404
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


class RegistryFailed(SourceError):
    """The schema registry could not be reached, or its response was invalid."""


class Schema(NamedTuple):
    """``kind``: AVRO, PROTOBUF or JSON. ``references``: other schemas, by the names that this schema uses."""

    kind: str
    text: str
    references: tuple[tuple[str, "Schema"], ...] = ()

    def referenced(self) -> "dict[str, Schema]":
        """Direct and indirect references by name, each after its own references."""
        found: dict[str, Schema] = {}
        _collect(self, found, set())
        return found


def _collect(schema: Schema, found: dict[str, Schema], begun: set[str]) -> None:
    for name, each in schema.references:
        if name not in begun:
            begun.add(name)
            _collect(each, found, begun)
            found[name] = each


class SchemaRegistry:
    """``url`` may have a path, and ``user:password@`` before its host.

    Raises: RegistryFailed for all failures. The result is None if something does not exist.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url.rstrip("/"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RegistryFailed(f"--schema-registry: {url.rpartition('@')[2]!r} is not http://HOST:PORT or https://HOST:PORT")
        self._headers = {"Accept": _ACCEPT}
        host = parts.netloc.rpartition("@")[2]
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        self.url = urlunsplit((parts.scheme, host, parts.path, "", ""))
        self._by_id: dict[int, Schema] = {}
        self._absent: set[int] = set()
        self._by_version: dict[tuple[str, int], Schema] = {}

    def by_id(self, schema_id: int) -> Schema | None:
        """The schema of this id, or None if there is none; an absent id is requested only once."""
        if schema_id not in self._by_id and schema_id not in self._absent:
            found = self._get(f"/schemas/ids/{schema_id}")
            if found is not None:
                self._by_id[schema_id] = self._schema(found)
            elif len(self._absent) < _ABSENT_MAX:
                self._absent.add(schema_id)
        return self._by_id.get(schema_id)

    def latest(self, subject: str) -> Schema | None:
        versions = self.learn(subject)
        return versions[-1] if versions else None

    def learn(self, subject: str) -> list[Schema]:
        """The subject's versions, oldest first, which ``by_id`` knows from then on."""
        numbers = self._get(f"/subjects/{quote(subject, safe='')}/versions") or []
        if isinstance(numbers, list) and len(numbers) > _VERSIONS_MAX:
            raise RegistryFailed(
                f"the schema registry {self.url} has {len(numbers):,} versions of {subject}; at most {_VERSIONS_MAX:,} "
                "are supported"
            )
        try:
            return [self._version(subject, int(number)) for number in sorted(numbers)]
        except (TypeError, ValueError) as error:
            raise self._no_registry() from error

    def _version(self, subject: str, number: int, depth: int = 0) -> Schema:
        key = (subject, number)
        if key not in self._by_version:
            found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{number}")
            if found is None:
                raise RegistryFailed(f"the schema registry {self.url} has no version {number} of {subject}")
            self._by_version[key] = self._schema(found, depth)
            if isinstance(found.get("id"), int):
                self._by_id[found["id"]] = self._by_version[key]
        return self._by_version[key]

    def _schema(self, found: Any, depth: int = 0) -> Schema:
        if depth > _REFERENCE_DEPTH_MAX:
            raise RegistryFailed(f"the schema registry {self.url} has circular references, or too deeply nested ones")
        try:
            named = [(str(each["name"]), self._version(each["subject"], int(each["version"]), depth + 1))
                     for each in found.get("references") or ()]  # fmt: skip
            kind, text = found.get("schemaType") or "AVRO", found["schema"]
            if not isinstance(kind, str) or not isinstance(text, str):
                raise self._no_registry()
            return Schema(kind, text, tuple(named))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._no_registry() from error

    def _get(self, path: str) -> Any:
        request = Request(f"{self.url}{path}", headers=self._headers)
        try:
            return self._decoded(within(_ANSWER_S, lambda: _read(request)))
        except HTTPError as error:
            with error:
                if error.code == _NOT_FOUND:
                    return None
            raise RegistryFailed(f"the schema registry {self.url} responds with {error.code} {error.reason}") from error
        except (URLError, OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise RegistryFailed(f"no response from the schema registry {self.url}: {reason}") from error

    def _decoded(self, data: bytes) -> Any:
        if len(data) > _ANSWER_BYTES_MAX:
            raise RegistryFailed(f"the schema registry {self.url} responds with more than {_ANSWER_BYTES_MAX:,} bytes")
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._no_registry() from error

    def _no_registry(self) -> RegistryFailed:
        return RegistryFailed(f"{self.url} does not respond like a schema registry")


def _read(request: Request) -> bytes:
    with build_opener(_Redirections()).open(request, timeout=_TIMEOUT_S) as answer:
        data = answer.read(_ANSWER_BYTES_MAX + 1)
    assert isinstance(data, bytes)
    return data


class _Redirections(HTTPRedirectHandler):
    """Follows redirections; the login goes only to the same host, and never from https to http."""

    def redirect_request(self, req: Request, *answer: Any) -> Request | None:
        new = super().redirect_request(req, *answer)
        if new is not None and (new.host != req.host or (req.type, new.type) == ("https", "http")):
            new.remove_header("Authorization")
        return new


@functools.cache
def registry_at(url: str) -> SchemaRegistry:
    """One object per registry and process, so that a second run requests only new schemas."""
    return SchemaRegistry(url)
