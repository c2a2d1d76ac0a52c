"""Figures of the rare class of imbalanced labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_score, recall_score

import driftsurf
from driftsurf.core.drifts import Drifts
from driftsurf.core.wording import rare_class
from driftsurf.evaluation.metrics import average_precision
from driftsurf.evaluation.scores import LARGEST_LOGIT, LOGIT_BINS, ScoreRecorder, Scores
from driftsurf.evaluation.summary import Baselines, RareClass, baselines, verdict_of
from driftsurf.session.observation import Observation


@pytest.mark.parametrize(
    ("counts", "rare"),
    [
        ({"no": 90, "yes": 10}, None),
        ({"no": 91, "yes": 9}, "yes"),
        ({"yes": 9, "no": 91}, "yes"),
        ({"ok": 950, "a": 10, "b": 30}, "b"),
        (dict.fromkeys(range(20), 5), None),
        ({"no": 100, "yes": 0}, None),
        ({}, None),
    ],
)
def test_labels_are_imbalanced_if_one_class_has_more_than_nine_tenths(counts: dict[Any, int], rare: Any) -> None:
    assert rare_class(counts) == rare


@pytest.mark.parametrize("share", [0.5, 0.05, 0.004])
def test_average_precision_is_that_of_scikit_learn(share: float) -> None:
    rng = np.random.default_rng(1)
    own = rng.random(30_000) < share
    scores = rng.normal(size=30_000) * 1.5 + 2.0 * own + np.log(share)
    places = np.clip((scores / LARGEST_LOGIT + 1) * LOGIT_BINS / 2, 0, LOGIT_BINS - 1).astype(int)
    counts = [np.bincount(places[own == kind], minlength=LOGIT_BINS) for kind in (False, True)]
    found = average_precision(*counts)
    assert found == pytest.approx(average_precision_score(own, scores), abs=0.002)
    assert np.isnan(average_precision(counts[0], 0 * counts[1]))
    ranks = np.argsort(np.argsort(scores))  # a bin for each row
    alone = average_precision(*(np.bincount(ranks[own == kind], minlength=len(own)) for kind in (False, True)))
    assert alone == pytest.approx(average_precision_score(own, scores))
    equal = average_precision(np.array([np.sum(~own)]), np.array([np.sum(own)]))
    assert equal == pytest.approx(own.mean(), abs=1e-4)  # as by chance


@pytest.mark.parametrize("rare", [0, 1])
def test_a_recorder_knows_the_average_precision_of_either_class(rare: int) -> None:
    rng = np.random.default_rng(2)
    recorder, text, seen = ScoreRecorder(lambda: ["a", "b"]), "", []
    for _ in range(20):
        own = rng.random(500) < 0.03
        true = np.where(own, rare, 1 - rare)
        margins = rng.normal(size=500) + np.where(true == 1, 1.5, -1.5)
        seen.append((own, margins if rare else -margins))
        codes = (margins > 0).astype(int)
        text += recorder.lines(None, {"m": Observation(codes, codes, true, margins, ())})
    own, margins = (np.concatenate(part) for part in zip(*seen, strict=True))
    scores = Scores.from_text(text)
    assert scores.average_precision("ab"[rare]) == pytest.approx(average_precision_score(own, margins), abs=0.005)
    assert np.isnan(scores.average_precision("ab"[1 - rare]))
    again = ScoreRecorder(lambda: ["a", "b"])
    again.restore(recorder.state())
    assert again.rare_precision() == recorder.rare_precision()


def test_the_rare_class_comes_before_the_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    fraud = X[:, 0] + 0.3 * rng.normal(size=4000) > 2.0
    path = tmp_path / "cards.csv"
    path.write_text(
        "a,b,kind\n" + "".join(f"{a},{b},{'fraud' if own else 'ok'}\n" for (a, b), own in zip(X, fraud, strict=True))
    )
    result = driftsurf.run(
        path, label="kind", batch_size=200, model="driftsurf", predictions=tmp_path / "p.csv", out=tmp_path / "run"
    )
    found = baselines(result.trace, result.model, result.scores)
    assert found.rare is not None
    lines = [line.split(",") for line in (tmp_path / "p.csv").read_text().splitlines()]
    guess = np.array([line[lines[0].index("prediction")] for line in lines[201:]])
    true = np.where(fraud, "fraud", "ok")[200:]
    assert found.rare.label == "fraud"
    assert found.rare.share == pytest.approx(np.mean(true == "fraud"))
    assert found.rare.recall == pytest.approx(recall_score(true, guess, pos_label="fraud"))
    assert found.rare.precision == pytest.approx(precision_score(true, guess, pos_label="fraud"))
    assert 0.5 < found.rare.average_precision < 1.0
    names = [name for name, _, _ in found.headline]
    assert names == [f"{what} of class fraud" for what in ("average precision", "recall", "precision")] + ["mean error"]
    verdict = verdict_of(result.trace, result.model, Drifts(), result.scores)
    assert verdict.status == "fine"
    assert "of class 'fraud' with a precision of" in verdict.text
    page = (tmp_path / "run" / "report.html").read_text()
    assert "average precision of class fraud" in page


def test_a_model_that_does_not_find_the_rare_class_is_warned_of() -> None:
    rare = RareClass("fraud", 0.02, 0.0, float("nan"), 0.021)
    found = Baselines("mean error", 0.02, {"majority": 0.02}, rare=rare)
    assert "hardly better than chance" in found.warning
    assert found.sentence == found.warning
    assert "no better" in replace(found, rare=replace(rare, average_precision=0.015)).warning
    good = replace(found, rare=replace(rare, average_precision=0.3))
    assert (good.warning, good.sentence) == ("", good.rare.sentence if good.rare else "")
    unscored = replace(rare, average_precision=float("nan"))
    assert "no row of class 'fraud'" in unscored.warning
    assert not replace(unscored, recall=0.1, precision=0.5).warning
