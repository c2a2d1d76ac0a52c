"""A few lines on how the columns of a table were understood."""

from __future__ import annotations

from collections.abc import Sequence

from driftsurf.core.wording import counted, in_words, optional
from driftsurf.data.column_summary import ColumnSummary
from driftsurf.report.terminal import console

__all__ = ["lines", "print_columns"]

MOST_NAMED = 12


def print_columns(summary: ColumnSummary, *, errors: bool = False) -> None:
    """Print a line for each kind of column."""
    screen = console(errors=errors)
    for line in lines(summary):
        screen.print(line)


def lines(summary: ColumnSummary) -> list[str]:
    """Return a line for each kind of column.

    >>> text = lines(ColumnSummary(
    ...     numbers=["price"], booleans=[], dates=["when"], names={"city": 3}, hashed={"shop": 1204}, empty=[],
    ...     features=0, left_out=["id"], label="sold", task="binary", n_classes=2, classes=["no", "yes"],
    ... ))
    >>> print("\\n".join(text))
    numbers   price
    dates     when
    names     city (3), shop (1,204, hashed)
    left out  id
    label     sold: no, yes (2 classes)
    """
    names = [f"{name} ({count:,})" for name, count in summary["names"].items()]
    names += [f"{name} ({count:,}, hashed)" for name, count in summary["hashed"].items()]
    names += [f"{name} (no value yet)" for name in summary["empty"]]
    kinds = {
        "numbers": _named(summary["numbers"]),
        "booleans": _named(summary["booleans"]),
        "dates": _named(summary["dates"]),
        "names": _named(names),
        "features": optional(summary["features"], f"{summary['features']:,}"),
        "left out": _named(summary["left_out"]),
        "label": f"{summary['label']}: {_classes(summary)}",
    }
    width = 2 + max(map(len, kinds))
    return [f"{kind:{width}}{text}" for kind, text in kinds.items() if text]


def _named(names: Sequence[str]) -> str:
    """Return the first names as text, and how many more there are."""
    return in_words(names, most=MOST_NAMED) + optional(len(names) > MOST_NAMED, f" ({len(names):,} in all)")


def _classes(summary: ColumnSummary) -> str:
    """Return the classes of the first batch; more may appear later."""
    count = summary["n_classes"]
    if summary["task"] == "regression" or not count:
        return f"{'numbers' if summary['task'] == 'regression' else 'no label yet'} ({summary['task']})"
    classes = counted(count, "class")
    return classes if count > MOST_NAMED else f"{', '.join(map(str, summary['classes']))} ({classes})"
