"""What goes wrong with traces."""

from __future__ import annotations


class TraceError(Exception):
    """Base of every error of traces."""


class TraceFileError(TraceError):
    """A file is no trace, or is damaged; the message names the file and the byte."""
