"""Alerts of served models: what is wrong, who is told, and when it has ended.

A thread (``worker.py``) reads the models, rules (``rules.py``) turn readings into conditions, a book (``book.py``)
turns conditions into notices, and channels (``channels/``) deliver them. The book and the notices that have not been
delivered are one file, so that a restart neither forgets nor repeats an alert.
"""

from __future__ import annotations

from driftsurf.service.alerts.book import AlertBook
from driftsurf.service.alerts.notice import Notice
from driftsurf.service.alerts.options import AlertOptions, read_alerts
from driftsurf.service.alerts.rules import Condition, Reading
from driftsurf.service.alerts.worker import AlertThread

__all__ = ["AlertBook", "AlertOptions", "AlertThread", "Condition", "Notice", "Reading", "read_alerts"]
