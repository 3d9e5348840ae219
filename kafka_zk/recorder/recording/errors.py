"""What goes wrong with a recording."""


class NoRecording(Exception):
    """A file is no recording, or of another version; ``str()`` says which."""
