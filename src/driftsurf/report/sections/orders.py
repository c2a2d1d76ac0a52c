"""Orders of an operator, such as a pin or a rollback, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterator

from driftsurf.report import html
from driftsurf.report.sections import RunView, Section
from driftsurf.visible import escape

MOST_LISTED = 400


def build(run: RunView) -> Iterator[str]:
    """Return the table of orders; nothing without orders."""
    if run.orders:
        rows = [
            (str(order.step), escape(order.kind), escape(order.outcome), escape(order.text))
            for order in run.orders[-MOST_LISTED:]
        ]
        yield html.wide_table(("before step", "order", "outcome", "explanation"), rows, numbers=(0,))


SECTION = Section("Orders of an operator", 60, build)
