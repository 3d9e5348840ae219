"""Errors of recordings."""


class NoRecording(Exception):
    """The file is no recording, or has another version; ``str()`` says which."""
