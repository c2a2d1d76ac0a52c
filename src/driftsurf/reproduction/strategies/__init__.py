"""Strategies that DriftSurf is compared with, and the code of its authors. :mod:`driftsurf.strategies` exports them.

``_ensemble.py`` has the base class of models that vote.
"""
