"""Base learners: models that strategies create, train and replace.

The linear learners of this package (STRSAGA, SAGA, SGD) live here, one public class in a file of its own;
:mod:`driftsurf.learners.foreign` adapts models of other libraries, and :mod:`driftsurf.learners.export` turns a trained
linear model into plain arrays or ONNX. A learner implements :class:`driftsurf.core.contracts.Learner`. It knows rows by
their number in a store and nothing of drift, labels, strategies or files.
"""

from __future__ import annotations

from driftsurf.core.exports import exports

__getattr__, __dir__, __all__ = exports(__name__)
