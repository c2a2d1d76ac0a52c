"""Estimators with scikit-learn's interface, and our models for river, CapyMOA and MLflow.

An estimator is a thin front of a session: it holds parameters, and learns through
:class:`~driftsurf.session.Session`. No algorithm lives here; strategies are in :mod:`driftsurf.strategies`.
"""

from __future__ import annotations

from driftsurf.core.exports import exports

__getattr__, __dir__, __all__ = exports(__name__, found_by="driftsurf.estimators._made")
