"""Kappa, balanced error, log loss, ranks, kept probabilities, and sources with options of their own."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from commands import invoke
from scipy.stats import wilcoxon
from sklearn.metrics import balanced_accuracy_score, cohen_kappa_score, log_loss

from driftsurf.comparison import peers
from driftsurf.comparison.compare import compare
from driftsurf.comparison.folder import PROBABILITIES, read_predictions
from driftsurf.comparison.inputs import Input, load, read_sources
from driftsurf.comparison.matches import FIRST_STEP, Match
from driftsurf.errors import OptionError
from driftsurf.evaluation.ranks import pairs_with
from driftsurf.report import comparison

WORDS = "Rome", "Oslo", "Bonn"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(7)
    lines = ["x,city,label"]
    for _ in range(400):
        x, city = rng.normal(), rng.integers(3)
        label = "abc"[int(rng.integers(3)) if rng.random() < 0.2 else min(int(x > 0) + int(city == 1), 2)]
        lines.append(f"{x:.3f},{WORDS[city]},{label}")
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def of(table: Path) -> Input:
    return Input(str(table), "label", batch_size=40)


@pytest.mark.parametrize("name", ["driftsurf:softmax", "majority", "aue:softmax"])
def test_the_quality_of_a_classification_is_that_of_scikit_learn(table: Path, name: str) -> None:
    score = Match(of(table), name, probabilities=True).perform()
    seen, quality = score.predictions, score.quality
    assert seen is not None
    assert quality is not None
    assert seen.probabilities is not None
    true, predicted, shares = (one[40 * FIRST_STEP :] for one in (seen.true, seen.predicted, seen.probabilities))
    assert quality.kappa == pytest.approx(cohen_kappa_score(true, predicted))
    assert quality.balanced_error == pytest.approx(1.0 - balanced_accuracy_score(true, predicted))
    assert quality.log_loss == pytest.approx(log_loss(true, shares, labels=[0, 1, 2]), rel=1e-6)
    assert score.error[FIRST_STEP:].mean() == pytest.approx(np.mean(true != predicted))


def test_a_model_without_probabilities_has_no_log_loss(table: Path) -> None:
    score = Match(of(table), "persistence", probabilities=True).perform()
    assert score.quality is not None
    assert score.quality.log_loss is None
    assert score.predictions is not None
    assert score.predictions.probabilities is None


@pytest.mark.skipif(find_spec("river") is None, reason="river is not installed")
def test_probabilities_of_river_belong_to_its_predictions(table: Path) -> None:
    score = Match(of(table), "river:ARF3", probabilities=True).perform()
    assert score.predictions is not None
    shares = score.predictions.probabilities
    assert shares is not None
    assert shares.sum(axis=1) == pytest.approx(1.0)
    chosen = shares[np.arange(len(shares)), score.predictions.predicted]
    assert (chosen == shares.max(axis=1)).all()


def test_votes_of_a_peer_become_probabilities() -> None:
    shares = peers._normalised(np.array([[3.0, 1.0], [0.0, 0.0], [np.nan, 1.0]]))
    assert shares.tolist() == [[0.75, 0.25], [0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize("sparse", [False, True])
def test_a_category_is_one_column_for_models_of_other_libraries(table: Path, sparse: bool) -> None:
    from scipy.sparse import csr_array

    rows = load(of(table))
    if sparse:
        rows = replace(rows, X=csr_array(rows.X))
    numbered = rows.numbered()
    ((first, stop),) = rows.categories
    assert numbered.X.shape == (rows.n_rows, rows.n_numbered)
    assert rows.n_numbered == rows.X.shape[1] - (stop - first) + 1
    cities = [line.split(",")[1] for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    codes = {city: {code for one, code in zip(cities, numbered.X[:, 0], strict=True) if one == city} for city in WORDS}
    assert all(len(found) == 1 for found in codes.values())
    assert len(set.union(*codes.values())) == 3
    assert Match(of(table), "majority").perform().error[1:].mean() > 0.3


def test_a_model_without_random_numbers_runs_once(table: Path, tmp_path: Path) -> None:
    compare(tmp_path / "out", [of(table)], ["majority", "driftsurf:softmax"], trials=3)
    lines = [json.loads(line) for line in (tmp_path / "out/ledger.jsonl").read_text().splitlines() if line]
    assert sorted(line["task"]["model"] for line in lines) == ["driftsurf:softmax"] * 3 + ["majority"]


def test_one_model_alone_can_be_measured(table: Path, tmp_path: Path) -> None:
    result = invoke("compare", str(table), "--label", "label", "--models", "majority", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0
    assert "majority has an error of" in result.stdout
    assert "runs finished" not in result.stdout
    assert "runs finished" in result.stderr


def test_probabilities_are_kept_and_written_again_if_a_file_is_missing(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = "compare", str(table), "--label", "label", "--models", "driftsurf:softmax,majority", "--out", str(out)
    assert invoke(*asked).exit_code == 0
    assert not (out / PROBABILITIES).exists()
    assert invoke(*asked, "--probabilities").exit_code == 0
    before = {one.model: one for one in read_predictions(out)}
    assert before.keys() == {"driftsurf:softmax", "majority"}
    assert before["majority"].labels == ("a", "b", "c")
    shutil.rmtree(out / PROBABILITIES)
    assert invoke(*asked, "--probabilities").exit_code == 0
    for one in read_predictions(out):
        assert one.probabilities is not None
        assert (one.probabilities == before[one.model].probabilities).all()


def test_a_source_may_have_a_label_and_a_batch_size_of_its_own(table: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(table.read_text(encoding="utf-8").replace("label", "outcome"), encoding="utf-8")
    with_comma = tmp_path / "a,label=b.csv"
    shutil.copy(table, with_comma)
    found = read_sources([f"{other},label=outcome,batch-size=50", str(table), str(with_comma)], label="label")
    assert [(one.source, one.label, one.batch_size) for one in found] == [
        (str(other), "outcome", 50),
        (str(table), "label", None),
        (str(with_comma), "label", None),
    ]
    with pytest.raises(OptionError, match=r"other\.csv.*'many'"):
        read_sources([f"{other},batch-size=many"])


def test_several_sources_have_ranks_and_a_diagram(table: Path, tmp_path: Path) -> None:
    sources = [replace(of(table), batch_size=size) for size in (40, 50)]
    result = compare(tmp_path / "out", sources, ["majority", "driftsurf:softmax", "persistence"])
    comparison.write(tmp_path / "out", result)
    assert result.ranking is not None
    assert result.ranking.average_ranks[0] == 1.0
    assert {pair.other for pair in result.pairs} == {"majority", "persistence"}
    assert "mean rank 1.00" in (tmp_path / "out/ranks.svg").read_text(encoding="utf-8")
    assert "cannot show a difference" in (tmp_path / "out/comparison.md").read_text(encoding="utf-8")
    alone = compare(tmp_path / "alone", sources, ["majority"])
    assert alone.ranking is None
    assert not alone.pairs


def test_pairs_are_tested_by_wilcoxon_and_corrected_by_holm() -> None:
    rng = np.random.default_rng(3)
    errors = [dict(zip("abcd", rng.random(4) + np.array([0.0, 0.3, 0.1, 0.5]), strict=True)) for _ in range(12)]
    found = pairs_with("a", "bcd", errors)
    raw = sorted(wilcoxon([row["a"] - row[other] for row in errors]).pvalue for other in "bcd")
    expected = np.minimum(1.0, np.maximum.accumulate([p * (3 - k) for k, p in enumerate(raw)]))
    assert sorted(pair.probability for pair in found) == pytest.approx(expected)
    assert all(pair.lower + pair.higher == 12 for pair in found)
