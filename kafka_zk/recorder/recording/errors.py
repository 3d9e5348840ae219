"""Errors of recordings."""


class NoRecording(Exception):
    """The file is not a recording, or has another version; ``str()`` says which."""
