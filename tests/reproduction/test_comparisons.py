"""Recovery, regret, places and ranks of algorithms, and the explanations of cells that differ."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from reproductions import synthetic

from driftsurf.data import catalogue
from driftsurf.reproduction import comparisons
from driftsurf.reproduction.cells import EXPLANATIONS, ErrorCell, explain
from driftsurf.reproduction.comparisons import accounts, full_title, places, rankings, recoveries, typical
from driftsurf.reproduction.published import STREAMS, TABLES, published
from driftsurf.reproduction.reproduce import Reproduction
from driftsurf.reproduction.trials import timeline


@pytest.fixture(scope="module")
def result() -> Reproduction:
    return synthetic(("sea0", "hyper-slow", "sine1", "circles", "powersupply", "covertype-sample", "spam-assassin"))


@pytest.mark.parametrize("dataset", list(catalogue.CATALOGUE.for_experiments))
def test_drifts_are_at_the_steps_at_which_aware_resets(dataset: str) -> None:
    line = timeline(dataset)
    if dataset in STREAMS:
        assert line.aware_steps == STREAMS[dataset].aware_steps
    assert all(drift.start % line.batch_size == 0 for drift in line.drifts)


def test_endless_drifts_have_no_recovery(result: Reproduction) -> None:
    assert timeline("hyper-slow").drifts
    assert timeline("hyper-slow").bounded == ()
    assert "hyper-slow" not in {one.dataset for one in recoveries(result.measured)}


def test_false_reactions_are_unknown_if_the_drifts_are(result: Reproduction) -> None:
    assert not timeline("spam-assassin").known
    assert timeline("sea0").known
    found = [one for one in accounts(result.measured) if one.dataset == "spam-assassin"]
    assert {one.false_reactions for one in found} == {None}
    assert next(one for one in found if one.algorithm == "driftsurf").reactions == 1


def test_the_title_of_a_stand_in_names_the_stream_it_stands_in_for() -> None:
    assert full_title("covertype-sample") == "CoverType (16 % sample), in place of CoverType"
    assert full_title("electricity") == "Electricity"


def test_recovery_is_counted_from_each_drift(result: Reproduction) -> None:
    found = {(one.dataset, one.algorithm, one.drift): one for one in recoveries(result.measured)}
    mine = found["sine1", "driftsurf", (20, 20)]
    assert mine.by_training == (1, 1, 1)
    assert len(mine.by_error) == 3
    assert found["sine1", "aue", (20, 20)].by_training is None
    assert ("circles", "mddm-g", (25, 30)) in found
    assert not any(algorithm == "aware" for _, algorithm, _ in found)


def test_a_failed_recovery_counts_as_infinite() -> None:
    assert typical([1, None, 3]) == 3
    assert math.isinf(typical([1, None]))


def test_accounts_compare_the_same_seeds(result: Reproduction) -> None:
    found = {(one.dataset, one.algorithm): one for one in accounts(result.measured)}
    runs, aware = (result.measured.runs("equal-model", "sine1", name) for name in ("aue", "aware"))
    expected = np.median([np.sum(a.error - b.error) for a, b in zip(runs, aware, strict=True)])
    mine = found["sine1", "aue"]
    assert mine.regret == pytest.approx(expected)
    assert mine.gradients_per_row == 2.0
    assert mine.seconds == 0.05
    assert (mine.reactions, mine.false_reactions) == (None, None)
    assert found["sine1", "aware"].regret == 0.0
    assert (found["sine1", "mddm-g"].reactions, found["sine1", "mddm-g"].false_reactions) == (5, 1)


def row(errors: dict[str, float], spread: float) -> list[ErrorCell]:
    return [
        ErrorCell("sgd", "sea0", name, "algorithm-1", (error - spread / 2, error, error + spread / 2), error, 0.1, 1)
        for name, error in errors.items()
    ]


def test_a_place_agrees_lies_within_the_spread_or_differs() -> None:
    printed = TABLES["sgd"].errors["sea0"]
    assert {name: printed[name] for name in ("driftsurf", "mddm-g", "aue")} == {
        "driftsurf": 0.118,
        "mddm-g": 0.127,
        "aue": 0.125,
    }
    as_printed = {"aware": 0.17, "driftsurf": 0.118, "mddm-g": 0.127, "aue": 0.125}
    (same,) = places(row(as_printed, 0.001))
    assert (same.verdict, same.ours, same.paper, same.reordered) == ("agrees", (1, 1), (1, 1), ())
    (near,) = places(row(as_printed | {"aue": 0.117}, 0.002))
    assert (near.verdict, near.ours, near.within_spread) == ("within the spread", (2, 2), (1, 2))
    assert near.reordered == ()
    (apart,) = places(row(as_printed | {"aue": 0.110}, 0.002))
    assert (apart.verdict, apart.reordered) == ("differs", ("aue",))


def test_ties_in_three_decimals_are_a_range_of_places() -> None:
    (one,) = places(row({"aware": 0.17, "driftsurf": 0.125, "mddm-g": 0.127, "aue": 0.125}, 0.0))
    assert (one.ours, one.verdict) == ((1, 2), "agrees")


def test_places_and_ranks_use_the_papers_streams_only(result: Reproduction) -> None:
    assert {one.dataset for one in places(result.cells)} == {"sea0", "hyper-slow", "sine1", "circles", "powersupply"}
    found = rankings(result.cells)
    assert tuple(found) == comparisons.RANKED
    for name, (plain, spread) in found.items():
        assert plain.streams == spread.streams == 5
        assert set(plain.algorithms) == set(TABLES[name].algorithms) - {"aware"}


def test_any_algorithm_can_be_placed(result: Reproduction) -> None:
    assert {one.table for one in places(result.cells, "candor")} == {"rho-4m", "rho-2m"}


def test_no_cells_give_no_ranks() -> None:
    assert rankings(()) == {}
    assert places(()) == []


def test_every_explanation_is_about_printed_cells() -> None:
    for known in EXPLANATIONS:
        assert known.tried
        assert known.conclusion
        for table, stream, algorithm in known.cells:
            assert published(table, stream, algorithm) is not None


def test_a_cell_without_an_investigation_has_no_explanation(result: Reproduction) -> None:
    cell = next(cell for cell in result.cells if (cell.table, cell.algorithm) == ("equal-model", "aware"))
    assert explain(cell) is None
    assert explain(replace(cell, table="sgd-rho-2m", dataset="circles")) is not None


def test_the_explanations_agree_with_the_printed_numbers() -> None:
    two = {s: TABLES["rho-4m"].errors[s]["aue-2"] - TABLES["rho-2m"].errors[s]["aue-2"] for s in STREAMS}
    assert [stream for stream, difference in two.items() if difference > 0] == ["circles"]
    aware = {s: abs(TABLES["sgd"].errors[s]["aware"] - TABLES["sgd-rho-2m"].errors[s]["aware"]) for s in STREAMS}
    assert max(aware, key=lambda stream: aware[stream]) == "circles"
    assert max(gap for stream, gap in aware.items() if stream != "circles") == pytest.approx(0.014)
    assert min(e for t in TABLES.values() for e in t.errors["circles"].values()) == pytest.approx(0.306)
