"""Plain names of the experts of the recommended portfolios. Journals and states hold the names of their classes."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["INSIDE", "expert_noun", "plain_expert"]

INSIDE: Final = " > "
"""Stands between the name of an expert that is a portfolio and that of an expert inside it."""
_EARLY = "linear, reacts early", "the linear model that reacts early"
_PROOF = "linear, reacts to proof", "the linear model that reacts to proof"
_NEVER = "linear, never replaced", "the linear model that is never replaced"
_WORDS: Final = {
    "DriftSurf(threshold=0.1)": _EARLY,
    "DriftSurf(threshold=0.25)": _PROOF,
    "DriftSurf(judge=training)": _EARLY,  # in a portfolio for regression, where both have the same threshold
    "DriftSurf(judge=prequential)": _PROOF,
    "SoftmaxRegression": _NEVER,
    "LogisticRegression": ("logistic, never replaced", "the logistic model that is never replaced"),
    "LinearRegression": _NEVER,
    "LazyBoostedTrees": ("trees", "the trees"),
    "LazyBoostedTrees(batches=4)": ("recent trees", "the recent trees"),
    "Perceptron": ("network", "the network"),
    "NaiveBayes": ("naive Bayes", "naive Bayes"),
}
"""Label and noun of an expert, by its name in the journal."""


def plain_expert(name: str) -> str:
    """Return the plain name of an expert, given its name in the journal; names of other experts stay.

    >>> plain_expert("DriftSurf(threshold=0.1)"), plain_expert("LazyBoostedTrees(batches=4)")
    ('linear, reacts early', 'recent trees')
    >>> plain_expert("Portfolio(SoftmaxRegression) > NaiveBayes #2"), plain_expert("AUE(LinearSVM)")
    ('Portfolio(SoftmaxRegression) > naive Bayes #2', 'AUE(LinearSVM)')
    """
    return INSIDE.join(_named(part, 0) for part in name.split(INSIDE))


def expert_noun(name: str) -> str:
    """Return an expert as part of a sentence.

    >>> expert_noun("LazyBoostedTrees"), expert_noun("DriftSurf(judge=training)"), expert_noun("AUE(LinearSVM)")
    ('the trees', 'the linear model that reacts early', 'AUE(LinearSVM)')
    """
    return INSIDE.join(_named(part, 1) for part in name.split(INSIDE))


def _named(name: str, form: int) -> str:
    base, number = re.fullmatch(r"(.*?)( #\d+)?", name, re.DOTALL).groups(default="")  # type: ignore[union-attr]
    return (_WORDS[base][form] if base in _WORDS else base) + number
