"""Comparison of models on sources: errors, costs, the winner, and how certain it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from driftsurf import __version__
from driftsurf.comparison.folder import LEDGER, check_folder, predictions_path, write_predictions
from driftsurf.comparison.inputs import Input
from driftsurf.comparison.matches import FIRST_STEP, SAME, InUnits, Match, ModelStanding, Score, Standings
from driftsurf.comparison.models import ComparedModel, Schedule, Situation, model, schedules
from driftsurf.comparison.runner import Ledger, run
from driftsurf.core.contracts import FloatArray
from driftsurf.core.options import StrPath, number, whole
from driftsurf.data.catalogue import CATALOGUE
from driftsurf.errors import CapabilityError, Message, Option, OptionError
from driftsurf.evaluation.ranks import Pair, Ranking, interval, pairs_with, ranking, ranks, resampled_means
from driftsurf.evaluation.summary import ClassQuality
from driftsurf.session.default_model import has_trees
from driftsurf.session.model_names import split_names

STREAM_MODELS = "recommended,driftsurf:logistic,aue:logistic,oblivious:logistic,majority,persistence"
"""Models of a classification when none are named and a source is a built-in stream."""
STREAM_REGRESSION_MODELS = "recommended,driftsurf:linear,aue:linear,oblivious:linear,mean,persistence"
TABLE_MODELS = "recommended,recommended-linear,aue:logistic,oblivious:logistic,majority,persistence"
"""Models of a classification of tables."""
TABLE_REGRESSION_MODELS = "recommended,recommended-linear,aue:linear,oblivious:linear,mean,persistence"
TREE_MODELS = "retrained:lightgbm,frozen:lightgbm"
"""Models that a comparison adds to the default ones where LightGBM can be loaded: what many people run instead."""

METHOD = (
    "the 95 % intervals are from a circular block bootstrap with 2,000 resamples: blocks of time steps are drawn for "
    "all models together, seeds for each model separately; the streams are fixed"
)
MOST_POINTS = 50
"""Points of a curve at most; those of more steps could not be told from those of other models."""
RELATIVE = "the absolute error relative to that of predicting the mean of all targets before the batch"
"""Error of a regression."""


@dataclass(frozen=True)
class Comparison:
    """Results of a comparison."""

    sources: tuple[Standings, ...]
    overall: Standings
    """Results over all sources; with a single source, the results on it."""
    seeds: tuple[int, ...]
    gradients_per_row: float | None

    @property
    def regression(self) -> bool:
        """Whether the targets are numbers rather than classes."""
        return self.overall.winner.relative_rmse is not None

    @property
    def ranking(self) -> Ranking | None:
        """Mean ranks of the models over the sources, with the critical difference; None for one model or source."""
        if len(self.sources) < 2 or len(self.overall.contenders) < 2:
            return None
        return ranking([one.model for one in self.overall.contenders], self._errors())

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The model with the lowest mean error beside each other one, by Wilcoxon's test over the sources."""
        if self.ranking is None:
            return ()
        best = self.overall.winner.model
        return pairs_with(best, [one.model for one in self.overall.contenders if one.model != best], self._errors())

    def _errors(self) -> list[dict[str, float]]:
        return [{one.model: one.error.value for one in source.contenders} for source in self.sources]


def compare(
    folder: StrPath,
    sources: Sequence[Input],
    models: Sequence[str] | None = None,
    *,
    trials: int = 1,
    seed: int = 0,
    jobs: int = 1,
    gradients_per_row: float | None = None,
    probabilities: bool = False,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    """Run every model on every source, once for each seed. Results in ``folder / "ledger.jsonl"`` are reused.

    While a process uses the folder, a second one is refused with the name of the first.

    Parameters
    ----------
    folder
        Where the ledger is written. It may hold a comparison of the same sources, or of some of them, and no other
        files.
    sources
        Streams or files. All of them must have classes, or all of them numbers to predict.
    models
        Names of models (:mod:`driftsurf.comparison.models`); None for the defaults of the task. ``best-schedule`` runs
        many schedules of retraining, and stands for the best one on each source.
    trials, seed
        Number of seeds of the models, and the first one. The rows are the same for all.
    jobs
        Number of processes.
    gradients_per_row
        A budget that all models share; None leaves each learner its own budget.
    probabilities
        Also write the predictions of every row to files, which
        :func:`~driftsurf.comparison.folder.read_predictions` reads.
    on_progress
        Called with "runs finished", the number of finished runs of a model on a source and the number of all of them.
    """
    if not sources:
        raise OptionError("sources is empty: pass at least one stream or file")
    sources = [what.with_inferred_options()[0] for what in sources]
    regression = _is_regression(sources)
    chosen = default_models(sources, gradients_per_row) if models is None else models
    groups = {name: found for name, found in (schedules(one, regression=regression) for one in chosen) if found}
    contenders: dict[str | Schedule, ComparedModel] = {
        one.name: one for one in (_contender(name) for name in chosen if not schedules(name, regression=regression)[1])
    }
    if not contenders:
        raise OptionError(Option("models"), f" are {', '.join(groups) or 'none'}; name at least one that is a model")
    contenders |= {one: model(one.model) for group in groups.values() for one in group}
    if gradients_per_row is not None:
        number("gradients_per_row", gradients_per_row, above=0.0)
    seeds = tuple(range(seed, seed + whole("trials", trials, at_least=1)))
    folder = Path(folder)
    check_folder(folder, sources)
    _check(contenders.values(), sources, Situation(0 if regression else 2, gradients_per_row=gradients_per_row))
    matches = {
        (what, name, one): Match(
            what, each.name, gradients_per_row, each.built_on, one if each.seeded else seed, probabilities
        )
        for what in sources
        for name, each in contenders.items()
        for one in seeds
    }
    digests = {what.source: what.digest() for what in sources}
    report = None if on_progress is None else lambda done, total: on_progress("runs finished", done, total)
    with Ledger(folder / LEDGER).held() as ledger:
        done = run(
            matches.values(),
            ledger,
            jobs=jobs,
            on_done=report,
            digest=digests.__getitem__,
            on_result=partial(write_predictions, folder) if probabilities else None,
            is_complete=lambda match: not probabilities or predictions_path(folder, match).exists(),
        )
    found = [
        (what.title, {name: [done[matches[what, name, one]] for one in seeds] for name in contenders})
        for what in sources
    ]
    return standings_of(found, seeds, gradients_per_row, groups)


def default_models(sources: Sequence[Input], gradients_per_row: float | None = None) -> list[str]:
    """Return the models of a comparison in which none are named.

    "recommended" is always among them. Beside it, a table is learned by "recommended-linear", and a built-in stream by
    DriftSurf around a linear learner, as in the paper. Where LightGBM is installed, it is retrained on a schedule and
    never, unless a budget of gradients is asked for.
    """
    regression = _is_regression(sources)
    if any(one.source in CATALOGUE for one in sources):
        ours = STREAM_REGRESSION_MODELS if regression else STREAM_MODELS
    else:
        ours = TABLE_REGRESSION_MODELS if regression else TABLE_MODELS
    first, *others = split_names(ours)
    rivals = split_names(TREE_MODELS) if has_trees() and gradients_per_row is None else []
    return [first, *others[:1], *rivals, *others[1:]]


def _contender(name: str) -> ComparedModel:
    try:
        return model(name)
    except OptionError as error:
        message: Message = error.args[0]
        raise OptionError(
            message.respelled(lambda part: Option("models") if part == Option("model") else part)
        ) from error


def _is_regression(sources: Sequence[Input]) -> bool:
    """Return whether all sources are regressions; OptionError if only some are."""
    kinds = {what.title: what.is_regression() for what in sources}
    if len(set(kinds.values())) > 1:
        first = {regression: title for title, regression in reversed(kinds.items())}
        raise OptionError(
            f"the label of {first[False]} is a class and that of {first[True]} is a number; their errors cannot be "
            "averaged: compare these sources separately"
        )
    return any(kinds.values())


def _check(contenders: Iterable[ComparedModel], sources: Sequence[Input], at: Situation) -> None:
    """Make each model once, so that an unusable one is refused before the first match."""
    known = replace(at, drift_steps=())
    for one in contenders:
        try:
            one.make(known)
        except CapabilityError as error:
            raise CapabilityError(
                f"{one.name} cannot be compared on {sources[0].title}, whose targets are {at.target}: ", *error.args
            ) from error


Scores: TypeAlias = Mapping[Any, list[Score]]
"""One score for each seed, by the name of the model, or by the :class:`Schedule`."""


def standings_of(
    found: Sequence[tuple[str, Scores]],
    seeds: tuple[int, ...],
    gradients_per_row: float | None,
    groups: Mapping[str, Sequence[Schedule]] | None = None,
) -> Comparison:
    """Return the comparison of scores, given for each source by its title.

    ``groups`` are schedules of which the best one on each source takes part, chosen afterwards, by a common name.
    """
    each = [_of_source(title, scores, groups or {}) for title, scores in found]
    single = tuple(_standings(one) for one in each)
    overall = single[0] if len(each) == 1 else _standings(_over_all(each))
    return Comparison(single, overall, seeds, gradients_per_row)


@dataclass(frozen=True)
class _Numbers:
    """Numbers of one source, or over all sources; arrays have one entry for each model."""

    title: str
    n_rows: int
    steps: int
    models: tuple[str, ...]
    errors: FloatArray
    means: FloatArray
    """Errors in each resample, (resamples, models)."""
    costs: FloatArray
    """Seconds and gradients, (models, 2)."""
    ranks: FloatArray
    diverged: tuple[bool, ...]
    in_units: tuple[InUnits, ...] = ()
    """Errors of a regression on one source in the unit of the label."""
    relative_rmse: FloatArray | None = None
    """RMSE of a regression relative to that of predicting the mean of earlier targets; None for classes."""
    quality: tuple[ClassQuality, ...] = ()
    """Kappa, balanced error and log loss of each model; none for a regression."""
    curves: tuple[tuple[float, ...], ...] = ()
    """Error over time of each model; none over all sources."""
    schedules: tuple[tuple[tuple[Schedule, float], ...], ...] = ()
    """Schedules of the last models, with their errors."""


def _of_source(title: str, every: Scores, groups: Mapping[str, Sequence[Schedule]]) -> _Numbers:
    tried = [tuple((one, _mean_error(every[one])) for one in group) for group in groups.values()]
    best = {name: min(group, key=lambda one: one[1])[0] for name, group in zip(groups, tried, strict=True)}
    scores = {name: of_seeds for name, of_seeds in every.items() if isinstance(name, str)}
    scores |= {name: every[one] for name, one in best.items()}
    tables = [np.array([score.error[FIRST_STEP:] for score in of_seeds]) for of_seeds in scores.values()]
    any_score = next(iter(scores.values()))[0]
    errors = np.array([table.mean() for table in tables])
    costs = [np.mean([(score.seconds, score.gradients) for score in of_seeds], axis=0) for of_seeds in scores.values()]
    in_units: tuple[InUnits, ...] = ()
    if any_score.in_units is not None:
        means = (
            np.mean([astuple(score.in_units) for score in of_seeds if score.in_units is not None], axis=0)
            for of_seeds in scores.values()
        )
        in_units = tuple(InUnits(*map(float, mean)) for mean in means)
    return _Numbers(
        title,
        any_score.n_rows,
        len(any_score.error),
        tuple(scores),
        errors,
        resampled_means(tables),
        np.array(costs),
        ranks(errors[: len(scores) - len(groups)]),
        tuple(any(score.diverged for score in of_seeds) for of_seeds in scores.values()),
        in_units,
        np.array([one.relative_rmse for one in in_units]) if in_units else None,
        tuple(
            _mean_quality([one.quality for one in of_seeds if one.quality is not None]) for of_seeds in scores.values()
        )
        if any_score.quality is not None
        else (),
        tuple(_curve(table) for table in tables),
        tuple(tried),
    )


def _mean_error(of_seeds: Sequence[Score]) -> float:
    return float(np.mean([score.error[FIRST_STEP:].mean() for score in of_seeds]))


def _curve(errors: FloatArray) -> tuple[float, ...]:
    """Return the mean error in equal spans of steps, given that of each seed and step."""
    spans = np.array_split(errors.mean(axis=0), min(MOST_POINTS, errors.shape[1]))
    return tuple(float(span.mean()) for span in spans)


def _mean_quality(each: Sequence[ClassQuality]) -> ClassQuality:
    """Return the mean of seeds or sources; None where one of them has no number."""

    def mean(numbers: Sequence[float | None]) -> float | None:
        known = [number for number in numbers if number is not None]
        return float(np.mean(known)) if len(known) == len(numbers) else None

    balanced = float(np.mean([one.balanced_error for one in each]))
    return ClassQuality(mean([one.kappa for one in each]), balanced, mean([one.log_loss for one in each]))


def _over_all(each: Sequence[_Numbers]) -> _Numbers:
    ratios = [one.relative_rmse for one in each if one.relative_rmse is not None]
    return _Numbers(
        f"mean of {len(each)} sources",
        sum(one.n_rows for one in each),
        sum(one.steps for one in each),
        each[0].models,
        np.mean([one.errors for one in each], axis=0),
        np.mean([one.means for one in each], axis=0),
        np.sum([one.costs for one in each], axis=0),
        np.mean([one.ranks for one in each], axis=0),
        tuple(map(any, zip(*(one.diverged for one in each), strict=True))),
        relative_rmse=np.mean(ratios, axis=0) if ratios else None,
        quality=tuple(_mean_quality(of_sources) for of_sources in zip(*(one.quality for one in each), strict=True)),
        schedules=tuple(map(_mean_errors, zip(*(one.schedules for one in each), strict=True))),
    )


def _mean_errors(of_sources: Sequence[tuple[tuple[Schedule, float], ...]]) -> tuple[tuple[Schedule, float], ...]:
    errors = [[error for _, error in every] for every in of_sources]
    return tuple(zip((one for one, _ in of_sources[0]), np.mean(errors, axis=0).tolist(), strict=True))


def _standings(of: _Numbers) -> Standings:
    n_contenders = len(of.ranks)
    best = int(of.errors[:n_contenders].argmin())
    rivals = of.means[:, :n_contenders]
    lowest = rivals <= rivals.min(axis=1, keepdims=True) + SAME
    wins = (lowest / lowest.sum(axis=1, keepdims=True)).mean(axis=0)
    models = tuple(
        ModelStanding(
            name,
            interval(of.errors[k], of.means[:, k]),
            interval(of.errors[k] - of.errors[best], of.means[:, k] - of.means[:, best]),
            float(wins[k]) if k < n_contenders else None,
            float(of.ranks[k]) if k < n_contenders else None,
            float(of.costs[k, 0]),
            float(of.costs[k, 1]) / of.n_rows,
            of.in_units[k] if of.in_units else None,
            None if of.relative_rmse is None else float(of.relative_rmse[k]),
            of.diverged[k],
            of.quality[k] if of.quality else None,
            of.curves[k] if of.curves else (),
            of.schedules[k - n_contenders] if k >= n_contenders else (),
        )
        for k, name in enumerate(of.models)
    )
    return Standings(of.title, of.n_rows, of.steps, models)


def to_json(result: Comparison) -> str:
    """Return all results as JSON, without measured times: a repeated comparison gives the same bytes."""
    whole_result: dict[str, Any] = {
        "driftsurf": __version__,
        "error": RELATIVE if result.regression else "the share of wrong rows",
        "method": METHOD,
        "seeds": result.seeds,
        "gradients_per_row": result.gradients_per_row,
        "winner": result.overall.winner.model,
        "verdict": result.overall.verdict(),
        "hindsight": result.overall.hindsight(),
        "overall": _untimed(result.overall),
        "ranking": None if result.ranking is None else asdict(result.ranking),
        "pairs": [asdict(one) for one in result.pairs],
        "sources": [_untimed(one) for one in result.sources],
    }
    return json.dumps(whole_result, indent=1) + "\n"


def timings(result: Comparison) -> str:
    """Return the measured CPU seconds of each model as JSON, in all and on each source."""
    overall, *every = ({each.model: each.seconds for each in one.models} for one in (result.overall, *result.sources))
    by_source = dict(zip((one.title for one in result.sources), every, strict=True))
    return json.dumps({"cpu_seconds": overall, "sources": by_source}, indent=1) + "\n"


def _untimed(standings: Standings) -> dict[str, Any]:
    found = asdict(standings)
    for one in found["models"]:
        del one["seconds"]
    return found
