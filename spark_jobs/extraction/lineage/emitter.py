"""Sends OpenLineage's events to a server, or appends them to a file. A failure never stops an extraction."""

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.waiting import Note, within

_ENDPOINT = "/api/v1/lineage"
_TIMEOUT_S = 5.0
_FIRST_ERROR = 300


class Emitter:
    """``target``: http://HOST:PORT, https://HOST:PORT, or a file. ``api_key``: sent only to the server; surrounding
    white space is removed. ``timeout_s``: for sending one event. Redirections are not followed, so that the key reaches
    no other host.
    """

    def __init__(self, target: str, api_key: str | None, note: Note, timeout_s: float = _TIMEOUT_S) -> None:
        """Raises WronglyAsked, never with the key."""
        self._target = target
        self._api_key = (api_key or "").strip()
        self._note = note
        self._timeout_s = timeout_s
        try:
            self._url = urlsplit(target)
            self._is_server = self._url.scheme in ("http", "https")
            is_wrong = self._is_server and (not self._url.hostname or self._url.username is not None)
            self._port = self._url.port if self._is_server else None
        except ValueError:  # brackets without an address, or a port that is not a number
            is_wrong = True
        if is_wrong:
            raise WronglyAsked("--openlineage is not http://HOST:PORT, https://HOST:PORT or a file")
        if not (self._api_key.isascii() and self._api_key.isprintable()):  # the HTTP client's error would show the key
            raise WronglyAsked("OPENLINEAGE_API_KEY has characters that an HTTP header cannot have")

    def emit(self, event: Mapping[str, Any]) -> None:
        try:
            within(self._timeout_s, lambda: self._post(event) if self._is_server else self._append(event))
        except (OSError, HTTPException, ValueError) as error:
            why = error or type(error).__name__
            self._note(f"the OpenLineage event {event['eventType']} could not be sent: {why}")

    def _append(self, event: Mapping[str, Any]) -> None:
        with Path(self._target).open("a") as file:
            file.write(f"{json.dumps(event)}\n")

    def _post(self, event: Mapping[str, Any]) -> None:
        kind = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
        headers = {"Content-Type": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        connection = kind(self._url.hostname or "", self._port, timeout=self._timeout_s)
        try:
            connection.request("POST", f"{self._url.path.rstrip('/')}{_ENDPOINT}", json.dumps(event), headers)
            status = connection.getresponse().status
        finally:
            connection.close()
        if status >= _FIRST_ERROR:
            raise OSError(f"{self._url.netloc} answered with the HTTP status {status}")
