"""A schema registry for tests: the part of Confluent's REST API that serializers and the extraction use, in memory.

PyPI has no real one; tests/peers/spark/test_apicurio.py uses one from Maven Central.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

_SUBJECT = re.compile(r"/subjects/([^/?]+)")
_VERSIONS = re.compile(r"/subjects/([^/?]+)/versions")
_VERSION = re.compile(r"/subjects/([^/?]+)/versions/(\d+|latest)")
_BY_ID = re.compile(r"/schemas/ids/(\d+)")


class SchemaRegistryServer:
    """``requests``: the paths that were requested. ``answers``: fixed responses (bytes) by path."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.answers: dict[str, bytes] = {}
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}
        self._lock = threading.Lock()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry.requests.append(self.path)
                self._answer(registry.get(self.path.partition("?")[0]))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(registry.post(self.path.partition("?")[0], body))

            def _answer(self, document: Any) -> None:
                given = registry.answers.get(self.path.partition("?")[0])
                found = document is not None or given is not None
                data = given or json.dumps(document or {"error_code": 40403, "message": "not found"}).encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def register(self, subject: str, text: str, kind: str = "AVRO", references: tuple[Any, ...] = ()) -> int:
        """The schema's id, which is the same in all subjects."""
        document = {"schemaType": kind, "schema": text, "references": list(references)}
        with self._lock:
            schema_id = next((number for number, each in self._schemas.items() if each == document), 0)
            schema_id = schema_id or len(self._schemas) + 1
            self._schemas[schema_id] = document
            versions = self._subjects.setdefault(subject, [])
            if schema_id not in versions:
                versions.append(schema_id)
        return schema_id

    def get(self, path: str) -> Any:
        if found := _BY_ID.fullmatch(path):
            return self._schemas.get(int(found[1]))
        if found := _VERSIONS.fullmatch(path):
            versions = self._subjects.get(unquote(found[1]))
            return versions and list(range(1, len(versions) + 1))
        if found := _VERSION.fullmatch(path):
            subject = unquote(found[1])
            versions = self._subjects.get(subject, [])
            number = len(versions) if found[2] == "latest" else int(found[2])
            return self._described(subject, number) if 0 < number <= len(versions) else None
        return None

    def post(self, path: str, body: Any) -> Any:
        wanted = (body["schema"], body.get("schemaType") or "AVRO", tuple(body.get("references") or ()))
        found = _VERSIONS.fullmatch(path) or _SUBJECT.fullmatch(path)
        subject = unquote(found[1]) if found else None
        if subject is None or not (_VERSIONS.fullmatch(path) or subject in self._subjects):
            return None
        schema_id = self.register(subject, *wanted)
        return self._described(subject, self._subjects[subject].index(schema_id) + 1)

    def _described(self, subject: str, version: int) -> Any:
        schema_id = self._subjects[subject][version - 1]
        return {"subject": subject, "version": version, "id": schema_id, **self._schemas[schema_id]}


@contextmanager
def schema_registry() -> Iterator[SchemaRegistryServer]:
    server = SchemaRegistryServer()
    try:
        yield server
    finally:
        server.close()
