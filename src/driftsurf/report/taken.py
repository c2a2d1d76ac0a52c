"""What the columns of a table were taken for, in a few lines."""

from __future__ import annotations

from collections.abc import Sequence

from driftsurf.assembly.columns import TakenFor
from driftsurf.report.terminal import console

__all__ = ["lines", "print_columns"]

MOST_NAMED = 12


def print_columns(taken: TakenFor, *, errors: bool = False) -> None:
    """A line for each kind of column that there is."""
    screen = console(errors=errors)
    for line in lines(taken):
        screen.print(line, markup=False)


def lines(taken: TakenFor) -> list[str]:
    """The same as text.

    >>> told = lines(TakenFor(
    ...     numbers=["price"], booleans=[], dates=["when"], names={"city": 3}, hashed={"shop": 1204}, empty=[],
    ...     features=0, left_out=["id"], label="sold", task="binary", n_classes=2, classes=["no", "yes"],
    ... ))
    >>> print("\\n".join(told))
    numbers   price
    dates     when
    names     city (3), shop (1,204, hashed)
    left out  id
    label     sold: no, yes (binary)
    """
    names = [f"{name} ({count:,})" for name, count in taken["names"].items()]
    names += [f"{name} ({count:,}, hashed)" for name, count in taken["hashed"].items()]
    names += [f"{name} (no value yet)" for name in taken["empty"]]
    said = {
        "numbers": _named(taken["numbers"]),
        "booleans": _named(taken["booleans"]),
        "dates": _named(taken["dates"]),
        "names": _named(names),
        "features": f"{taken['features']:,}" * bool(taken["features"]),
        "left out": _named(taken["left_out"]),
        "label": f"{taken['label']}: {_classes(taken)}",
    }
    width = 2 + max(map(len, said))
    return [f"{kind:{width}}{text}" for kind, text in said.items() if text]


def _named(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMED
    shown = ", ".join(names[:MOST_NAMED])
    return f"{shown} and {rest:,} more, {len(names):,} in all" if rest > 0 else shown


def _classes(taken: TakenFor) -> str:
    shown = ", ".join(map(str, taken["classes"]))
    if taken["task"] == "regression":
        shown = "values"
    elif taken["n_classes"] == 0:
        shown = "none has come yet"
    elif taken["n_classes"] > MOST_NAMED:
        shown = f"{taken['n_classes']:,} classes"
    return f"{shown} ({taken['task']})"
