"""Conformance checks for learners, detectors, strategies, streams, connectors and logs of your own.

Each ``check_*`` function runs a list of small checks and raises :class:`~driftsurf.errors.CheckError` at the first one
that fails; the message names the check, what was expected and what was found. Every part of this package passes.
Test data, fixtures and anything that only this package's own tests need do not belong here.

>>> from driftsurf.checks import check_detector
>>> from driftsurf.detectors import DDM
>>> check_detector(DDM())

``python -m driftsurf.checks matrix`` prints which strategies work with which learners, tasks and kinds of rows.
"""

from driftsurf.checks.connectors import (
    InboxCase,
    SeekableCase,
    WriterCase,
    check_inbox,
    check_seekable,
    check_writer,
)
from driftsurf.checks.detectors import check_detector
from driftsurf.checks.learners import check_learner
from driftsurf.checks.logs import LogCase, check_log
from driftsurf.checks.strategies import check_strategy
from driftsurf.checks.streams import check_stream
from driftsurf.errors import CheckError

__all__ = [
    "CheckError",
    "InboxCase",
    "LogCase",
    "SeekableCase",
    "WriterCase",
    "check_detector",
    "check_inbox",
    "check_learner",
    "check_log",
    "check_seekable",
    "check_strategy",
    "check_stream",
    "check_writer",
]
