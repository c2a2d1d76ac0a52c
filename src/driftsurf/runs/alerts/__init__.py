"""Alerts of served models: what is wrong, who is told, and when it has ended.

A thread reads the models, rules (``rules.py``) turn readings into conditions, a book (``delivery.py``) turns
conditions into notices, and channels (``channels.py``) deliver them. The book and the notices that have not been
delivered are one file, so that a restart neither forgets nor repeats an alert.
"""

from __future__ import annotations

from driftsurf.runs.alerts.channels import Notice
from driftsurf.runs.alerts.delivery import AlertBook, AlertThread
from driftsurf.runs.alerts.rules import AlertOptions, Condition, Reading, read_alerts

__all__ = ["AlertBook", "AlertOptions", "AlertThread", "Condition", "Notice", "Reading", "read_alerts"]
