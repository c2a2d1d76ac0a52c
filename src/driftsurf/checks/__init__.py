"""Does it meet the contract? Checks to run on a learner, a detector, a strategy or a stream of your own.

Each ``check_*`` runs a list of small checks and raises a :class:`~driftsurf.errors.CheckError` that names the first
one that fails, what was expected and what came. Everything in this package passes them.

>>> from driftsurf.checks import check_detector
>>> from driftsurf.detectors import DDM
>>> check_detector(DDM())

``python -m driftsurf.checks matrix`` prints which strategies go with which learners, tasks and kinds of rows.
"""

from driftsurf.checks.detectors import check_detector
from driftsurf.checks.learners import check_learner
from driftsurf.checks.strategies import check_strategy
from driftsurf.checks.streams import check_stream
from driftsurf.errors import CheckError

__all__ = ["CheckError", "check_detector", "check_learner", "check_strategy", "check_stream"]
