"""Cells of tables, and their agreement with the paper."""

from __future__ import annotations

from reproductions import cell

from driftsurf.reproduction import plan
from driftsurf.reproduction.cells import agreement, to_csv, to_markdown


def test_cells_near_the_paper_are_counted_as_they_are_printed() -> None:
    cells = [
        cell("equal-model", "sea0", "aware", 0.1474),  # rounds to 0.147, off by 0.010
        cell("equal-model", "sea0", "aue", 0.1046),  # rounds to 0.105, off by 0.011
        cell("equal-model", "sea0", "driftsurf", 0.12),
        cell("equal-model", "sea0", "driftsurf", 0.30, variant="authors"),
        cell("equal-model", "airline-2007", "aue", 0.9),
    ]
    near = agreement(cells)
    assert (near.cells, near.within_10, near.within_20) == (3, 1, 2)
    assert [miss.algorithm for miss in near.misses] == ["driftsurf"]
    for number in ("3 ", "1 (33.3%)", "0.010", "2 (66.7%)", "0.020"):
        assert number in near.describe()
    assert agreement([]).describe()


def test_the_best_of_a_row_is_bold_and_aware_never_is() -> None:
    table = plan.TABLES["sgd"]
    cells = [cell("sgd", "sea0", name, error) for name, error in (("aware", 0.1), ("mddm-g", 0.2), ("aue", 0.3))]
    cells += [cell("sgd", "sea0", "driftsurf", 0.2), cell("sgd", "sea0", "driftsurf", 0.15, variant="authors")]
    row = to_markdown(table, cells, {"sea0": "SEA0"}).splitlines()[-1]
    assert row.split(" | ") == [
        "| SEA0",
        "0.100 ±0.001 / 0.170",
        "**0.200** ±0.001 / 0.118",
        "0.150 ±0.001 / 0.118",
        "**0.200** ±0.001 / 0.127",
        "0.300 ±0.001 / 0.125 |",
    ]
    head, first = to_csv(cells).splitlines()[:2]
    assert dict(zip(head.split(","), first.split(","), strict=True))["difference"] == "-0.07"
