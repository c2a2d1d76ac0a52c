"""Comparison of any models on any sources: inputs, models, models of other libraries, the runner and its ledger.

The paper's own tables are in :mod:`driftsurf.reproduction`; pages and terminal output are in :mod:`driftsurf.report`.
"""
