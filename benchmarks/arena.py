"""Models against each other on many streams, at any pace, with labels at once or late, in parts that can be resumed.

``python -m benchmarks arena`` runs every model on every stream, pace (rows of a call) and delay (calls until the labels
of a call are known) that is not in ``--out`` yet, and prints wins, levels and losses of ``recommended`` against each
other model. A part is one model on one stream at one pace and delay; it takes seconds to minutes, and is written to the
file when it is done. ``--report`` prints the tables of what is there.

A model predicts the rows of a call before it learns labels: with delay 0 those of the same call, with delay d those of
the call d before it. The first 100 rows are learned at once and do not count. A stream counts with its error: the share
of wrong rows, or for numbers the mean absolute error as a share of that of the mean so far. Differences have 95 %
intervals of a circular block bootstrap over hundredths of the stream. A difference whose interval contains 0 is level.

``retrain`` stands for a job that fits a model from scratch to the last rows on a schedule. Its schedules are all run,
and the best one on each stream, chosen afterwards, is what nobody can know: ``retrain, best of all``.

Settings of our models were chosen on generated streams, with seeds below 10, and on the real streams in ``CHOSEN_ON``;
the other real ones judge.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.everyday import EVERYDAY, EVERYDAY_NUMBERS, generated
from benchmarks.hard_streams import HARD, as_rows
from driftsurf import PortfolioClassifier, PortfolioRegressor, recommended
from driftsurf.comparison.inputs import REAL, Input, StreamInMemory, load
from driftsurf.comparison.models import Situation
from driftsurf.comparison.models import model as rival
from driftsurf.core.contracts import FloatArray
from driftsurf.errors import CapabilityError, MissingExtraError
from driftsurf.evaluation.ranks import resampled_means
from driftsurf.strategies import DriftSurf
from driftsurf.strategies._experts import default_experts

CHOSEN_ON = "electricity", "insects", "phishing", "rialto", "outdoor", "electricity-price"
"""Real streams on which settings may be chosen."""
NUMBERS = "electricity-price", "powersupply-load", "noaa-temperature"
INJECTED = "noaa-weather/swapped", "phishing/swapped"
"""Real streams whose first two labels are swapped in the third quarter of their rows."""
STREAMS = (*REAL, *INJECTED, *EVERYDAY, *HARD, "sine1", "mixed", "sea10", *NUMBERS, *EVERYDAY_NUMBERS, "friedman")
OURS = "recommended", "recommended-light", "recommended-linear", "recommended without DriftSurf"
RIVALS = (
    *("river:ARF10", "river:SRP10", "capymoa:ARF10", "capymoa:SRP10", "capymoa:StreamingGradientBoostedTrees"),
    *("capymoa:SAMkNN", "capymoa:LeveragingBagging", "capymoa:AutoClass"),
)
TRAINED = "lightgbm", "histogram boosting", "linear"
EVERY, WINDOW = (100, 500, 2_000), (500, 2_000, 10_000)
"""Schedules: a fit after so many new rows, to so many of the last rows."""
RETRAINED = tuple(f"retrain {name} {every}/{window}" for name in TRAINED for every in EVERY for window in WINDOW)
REPEAT = "repeat the last label"
MODELS = (*OURS, *RIVALS, *RETRAINED, REPEAT)
FIRST = 100
START = 500
"""The rows before this one, without the first ones, are the start."""
PARTS = 100
NEAR = 0.003


class Part(NamedTuple):
    """A piece of work: one model on one stream."""

    stream: str
    seed: int
    rows: int
    pace: int
    delay: int
    model: str


@dataclass(frozen=True)
class Found:
    """What a part has shown."""

    errors: list[float]
    """Errors of the hundredths of the stream."""
    start: float
    seconds: float


@functools.lru_cache(maxsize=64)
def read(name: str, seed: int, count: int) -> StreamInMemory:
    """Return the first rows of a stream."""
    if name in EVERYDAY or name in EVERYDAY_NUMBERS:
        return generated(name, seed, count)
    base, _, change = name.partition("/")
    rows = as_rows(base, seed) if base in HARD else load(Input(base))
    rows = (rows if rows.n_rows <= count else replace(rows, batch_size=1).first(count)).dense()
    if change == "swapped":
        y = rows.y.copy()
        third = slice(len(y) // 2, 3 * len(y) // 4)
        y[third] = np.where(y[third] < 2, 1 - y[third], y[third])
        rows = replace(rows, y=y)
    return rows


# ------------------------------------------------------------------------------------------------------------ models


class Runner:
    """A model that predicts and learns rows apart."""

    def __init__(self, predict: Callable[[Any], Any], learn: Callable[[Any, Any], Any]) -> None:
        self.predict, self.learn = predict, learn


class Retrained:
    """A model that is fitted from scratch to the last ``window`` rows after every ``every`` new ones."""

    def __init__(self, fresh: Callable[[], Any], every: int, window: int, numbers: bool) -> None:
        self._fresh, self._every, self._window, self._numbers = fresh, every, window, numbers
        self._X: list[Any] = []
        self._y: list[Any] = []
        self._seen = self._fitted = 0
        self._model: Any = None

    def predict(self, X: FloatArray) -> Any:
        """Predict rows by the last fit; by a constant before there was one with two classes."""
        return np.zeros(len(X)) if self._model is None else self._model.predict(X)

    def learn(self, X: FloatArray, y: npt.NDArray[Any]) -> None:
        """Store rows, and fit if that is due: at first after each doubling of the rows."""
        self._X.append(X)
        self._y.append(y)
        self._seen += len(y)
        if self._seen - self._fitted < min(self._every, max(self._fitted, 1)):
            return
        rows, codes = np.concatenate(self._X)[-self._window :], np.concatenate(self._y)[-self._window :]
        self._X, self._y, self._fitted = [rows], [codes], self._seen
        if self._numbers or len(np.unique(codes)) > 1:
            self._model = self._fresh().fit(rows, codes)
        else:
            only = codes[0]
            self._model = Runner(lambda X: np.full(len(X), only), lambda X, y: None)


def _trained(name: str, numbers: bool) -> Callable[[], Any]:
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if name == "lightgbm":
        return lambda: (LGBMRegressor if numbers else LGBMClassifier)(n_jobs=1, verbose=-1, random_state=0)
    if name == "histogram boosting":
        boosting = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
        return lambda: boosting(random_state=0)
    return lambda: make_pipeline(StandardScaler(), Ridge() if numbers else LogisticRegression(max_iter=200))


def make(name: str, rows: StreamInMemory, pace: int) -> Runner:
    """Return a model for a stream; CapabilityError or MissingExtraError if there is none."""
    numbers = not rows.labels
    task: Any = "regression" if numbers else "classification"
    if name == REPEAT:
        last = [0.0]
        return Runner(lambda X: np.full(len(X), last[0]), lambda X, y: last.__setitem__(0, float(y[-1])))
    if name.startswith("retrain "):
        kind, _, plan = name.removeprefix("retrain ").rpartition(" ")
        every, window = map(int, plan.split("/"))
        job = Retrained(_trained(kind, numbers), every, window, numbers)
        return Runner(job.predict, job.learn)
    if name.startswith("recommended"):
        ours = _recommended(name, task)
        known = {} if numbers else {"classes": rows.classes}
        return Runner(ours.predict, lambda X, y: ours.partial_fit(X, y, **known))
    peer: Any = rival(name).make(Situation(len(rows.labels), pace))
    begun: list[bool] = []

    def learn(X: FloatArray, y: npt.NDArray[Any]) -> None:
        if not begun:
            begun.append(True)
            peer._begin(X.shape[1], len(rows.labels))
            peer.classes_ = np.arange(len(rows.labels))
        peer._learn(X, y)

    return Runner(lambda X: np.asarray(peer._predict(X), float), learn)


def _recommended(name: str, task: Any) -> Any:
    if name == "recommended without DriftSurf":
        model = recommended(task=task, random_state=0)
        experts = [one for one in default_experts(model.learner) if not isinstance(one, DriftSurf)]
        kind = PortfolioRegressor if task == "regression" else PortfolioClassifier
        return kind(model.learner, experts=experts, random_state=0)
    kinds: Any = name.partition("-")[2] or "portfolio"
    return recommended(kinds, task=task, random_state=0)


def perform(part: Part) -> Found:
    """Run a part."""
    rows = read(part.stream, part.seed, part.rows)
    X, y = np.ascontiguousarray(rows.X, float), np.asarray(rows.y, float if not rows.labels else np.int64)
    began = time.process_time()
    model = make(part.model, rows, part.pace)
    model.learn(X[:FIRST], y[:FIRST])
    losses, waiting = np.full(len(y), np.nan), list[slice]()
    level = np.cumsum(y) / np.arange(1, len(y) + 1)
    for start in range(FIRST, len(y), part.pace):
        call = slice(start, min(start + part.pace, len(y)))
        found = np.asarray(model.predict(X[call]), float)
        losses[call] = found != y[call] if rows.labels else np.abs(found - y[call])
        waiting.append(call)
        if len(waiting) > part.delay:
            known = waiting.pop(0)
            model.learn(X[known], y[known])
    seconds = time.process_time() - began
    if not rows.labels:
        losses /= np.abs(y[FIRST:] - level[FIRST - 1 : -1]).mean()
    parts = np.array_split(losses[FIRST:], PARTS)
    return Found([float(one.mean()) for one in parts if len(one)], float(losses[FIRST:START].mean()), seconds)


# ----------------------------------------------------------------------------------------------------------- results


class Results:
    """What is known of each part, in a file with one line for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[Part, Found | None] = {}
        """None for a model that cannot run on a stream."""
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                known = json.loads(line)
                self.found[Part(*known["part"])] = Found(**known["found"]) if known["found"] else None

    def add(self, part: Part, found: Found | None) -> None:
        """Write down a part."""
        self.found[part] = found
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"part": part, "found": found and vars(found)}) + "\n")


def run(parts: Sequence[Part], results: Results) -> None:
    """Run all parts that are not known yet."""
    missing = set[str]()
    for place, part in enumerate(parts):
        package = part.model.partition(":")[0]
        if part in results.found or package in missing:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = perform(part)
        except CapabilityError:
            results.add(part, None)
            continue
        except MissingExtraError as lack:
            missing.add(package)
            print(lack, flush=True)
            continue
        results.add(part, found)
        mean, seconds = float(np.mean(found.errors)), found.seconds
        print(f"{place + 1}/{len(parts)} {' '.join(map(str, part))}: {mean:.4f} in {seconds:.1f} s", flush=True)


def rounds(results: Results) -> Iterator[tuple[tuple[int, int], dict[tuple[str, int, int], dict[str, Found]]]]:
    """Yield each pace and delay with what the models have shown on each stream."""
    for pace, delay in sorted({(part.pace, part.delay) for part in results.found}):
        streams: dict[tuple[str, int, int], dict[str, Found]] = {}
        for part, found in results.found.items():
            if (part.pace, part.delay) == (pace, delay) and found is not None:
                streams.setdefault((part.stream, part.seed, part.rows), {})[part.model] = found
        yield (pace, delay), {name: with_hindsight(models) for name, models in streams.items()}


def with_hindsight(models: Mapping[str, Found]) -> dict[str, Found]:
    """Return the models with the best schedule of each kind of retraining, and of all."""
    found = {name: one for name, one in models.items() if not name.startswith("retrain ")}
    plans = [name for name in models if name.startswith("retrain ")]
    for title, kinds in [("all", TRAINED), *((kind, (kind,)) for kind in TRAINED)]:
        of_kind = [models[name] for name in plans if name.startswith(tuple(f"retrain {kind} " for kind in kinds))]
        if of_kind:
            found[f"retrain, best of {title}"] = min(of_kind, key=lambda one: float(np.mean(one.errors)))
    return found


def difference(one: Found, other: Found) -> tuple[float, float, float]:
    """Return the difference of two mean errors, with its 95 % interval."""
    means = resampled_means([np.array([one.errors]), np.array([other.errors])])
    low, high = np.quantile(means[:, 0] - means[:, 1], (0.025, 0.975))
    return float(np.mean(one.errors) - np.mean(other.errors)), float(low), float(high)


def report(results: Results, ours: str = "recommended") -> None:
    """Print wins, levels and losses of a model at each pace and delay, and its errors."""
    for (pace, delay), streams in rounds(results):
        print(f"\n### {pace} rows in a call, labels {delay} calls late: {len(streams)} streams\n")
        print(f"| {ours} against | wins | level | losses | difference | 95 % | within {NEAR} | start | CPU |")
        print("|---|---:|---:|---:|---:|---|---:|---:|---:|")
        others = sorted({name for models in streams.values() for name in models} - {ours})
        for name in others:
            pairs = [(models[ours], models[name]) for models in streams.values() if {ours, name} <= models.keys()]
            if not pairs:
                continue
            each = [difference(*pair) for pair in pairs]
            wins, losses = sum(high < 0.0 for _, _, high in each), sum(low > 0.0 for _, low, _ in each)
            near = np.mean([mean <= NEAR for mean, _, _ in each])
            low, high = _of_streams([mean for mean, _, _ in each])
            start = np.mean([a.start for a, _ in pairs]) / np.mean([b.start for _, b in pairs])
            cost = sum(a.seconds for a, _ in pairs) / sum(b.seconds for _, b in pairs)
            counts = f"{wins} | {len(each) - wins - losses} | {losses} | {np.mean([mean for mean, _, _ in each]):+.4f}"
            print(f"| {name} | {counts} | {low:+.4f} to {high:+.4f} | {near:.0%} | {start:.2f} | {cost:.2f} |")
        shown = [ours, *(name for name in others if not name.startswith("retrain") or name.endswith("of all"))]
        print(f"\n| stream | {' | '.join(shown)} |\n|---|{'---:|' * len(shown)}")
        for (stream, seed, _), models in sorted(streams.items()):
            cells = [f"{np.mean(models[name].errors):.4f}" if name in models else "" for name in shown]
            mark = "" if stream in REAL and stream not in CHOSEN_ON else " *"
            print(f"| {stream}, seed {seed}{mark} | {' | '.join(cells)} |")
    print("\n\\* settings were chosen on streams of this kind, or on this one.")


def _of_streams(differences: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a mean over streams, which are drawn again."""
    values = np.asarray(differences)
    drawn = np.random.default_rng(0).integers(0, len(values), (2_000, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def main(arguments: Sequence[str]) -> None:
    """Run what is asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks arena", description="Models against each other.")
    parser.add_argument("--streams", nargs="+", default=STREAMS, metavar="NAME")
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="NAME")
    parser.add_argument("--paces", nargs="+", type=int, default=(1, 100), help="rows of a call (default: 1 100)")
    parser.add_argument("--delays", nargs="+", type=int, default=(0, 1, 10), help="calls (default: 0 1 10)")
    parser.add_argument("--seeds", nargs="+", type=int, default=(11,), help="of generated streams (default: 11)")
    parser.add_argument("--rows", type=int, default=5_000, help="first rows of each stream (default: 5,000)")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/arena.jsonl"))
    parser.add_argument("--report", action="store_true", help="print what is known, and run nothing")
    options = parser.parse_args(arguments)
    results = Results(options.out)
    if not options.report:
        parts = [
            Part(stream, seed, options.rows, pace, delay, model)
            for pace in options.paces
            for delay in options.delays
            for model in options.models
            for stream in options.streams
            for seed in (options.seeds if stream not in (*REAL, *INJECTED, *NUMBERS) else options.seeds[:1])
        ]
        run(parts, results)
    report(results)
