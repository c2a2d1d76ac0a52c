"""Explanations of why a model changed: decisions in words, replays with other thresholds, histories of models.

Everything is read from the journal, the trace and the checkpoints of a run. Nothing here runs a model or draws a page.
"""
