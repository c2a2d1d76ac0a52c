"""Sinks: where the predictions of a run go. One sink, one file.

A sink is registered under its name, with the endings of file names or the schemes of URLs that it opens::

    @register("sink", "log", endings=(".log",))
    class LogSink(FileSink): ...

:func:`open_sink` finds it by that ending or scheme. Another package adds sinks through the entry points
``driftsurf.sinks``. Only writing belongs here: predictions are made in :mod:`driftsurf.runs`.
"""

from driftsurf.runs.sinks._base import Closable, Filing, Sink, SinkContext, is_file, open_sink

__all__ = ["Closable", "Filing", "Sink", "SinkContext", "is_file", "open_sink"]
