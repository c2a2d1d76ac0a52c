"""The real data sets of the paper: facts about them, where their files are, and how they become streams.

Importing this package does not load pyarrow, which is loaded when a file is read.
"""

from driftsurf.data.datasets.authors import AuthorsFile
from driftsurf.data.datasets.real import RealStream

__all__ = ["AuthorsFile", "RealStream"]
