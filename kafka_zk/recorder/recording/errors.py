"""Errors of recordings."""


class NoRecording(Exception):
    """A file is not a recording, or has another version; ``str()`` says which."""
