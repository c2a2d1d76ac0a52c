"""Models against each other on many streams, at any pace, with labels at once or late, in parts that can be resumed.

``python -m benchmarks arena`` runs every model on every stream, pace (rows of a call) and delay (calls until the labels
of a call are known) that is not in ``--out`` yet, and prints wins, levels and losses of ``recommended`` against each
other model. A part is one model on one stream at one pace and delay; it takes seconds to minutes, and is written to the
file when it is done. It counts for the commit that was measured: ``--again`` measures parts of other commits again.
``--hours`` ends the command after so long (4 by default); ``--report`` prints the tables of what is there.

A model predicts the rows of a call before it learns labels: with delay 0 those of the same call, with delay d those of
the call d before it. The first 100 rows are learned at once and do not count. A stream counts with its error: the share
of wrong rows, or for numbers the mean absolute error as a share of that of the mean so far. Differences have 95 %
intervals of a circular block bootstrap over hundredths of the stream. A difference whose interval contains 0 is level.

Where labels are late, our models are told so, as in a run, a service or ``DelayedLabels``.

``retrain`` stands for a job that fits a model from scratch to the last rows on a schedule, as ``retrained`` of
``driftsurf compare`` does. Its schedules are all run, and the best one on each stream, chosen afterwards, is what
nobody can know: ``retrain, best of all``. ``recommended without DriftSurf`` shows what DriftSurf contributes.

CPU seconds are those of predicting and learning, in all threads, Java's too. With ARF(10) of CapyMOA among the models,
the last table has the CPU seconds of each model beside it, and whether ``recommended`` takes at most a quarter of them
and ``recommended-light`` a tenth.

Settings of our models were chosen on generated streams, with seeds below 10, and on the real streams in ``CHOSEN_ON``;
the other real ones judge.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import tempfile
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
from driftsurf.comparison.models import ROWS, ComparedModel, Situation, schedules
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
JUDGES = (
    *("noaa-weather", "powersupply", "airline-2007", "covertype-sample", "luxembourg", "noaa-weather/swapped"),
    *("powersupply-load", "noaa-temperature", *EVERYDAY, *EVERYDAY_NUMBERS),
)
"""Streams of the default: real ones on which no setting was chosen, and generated ones with other seeds."""
OURS = "recommended", "recommended-light", "recommended-linear", "recommended without DriftSurf"
FOREST = "capymoa:ARF10"
"""The model whose CPU seconds are the unit."""
SHARES = {"recommended": 0.25, "recommended-light": 0.1}
"""The most that our models should take of it."""
RIVALS = {
    FOREST: (FOREST, FOREST),
    "capymoa:SRP10": ("capymoa:SRP10", ""),
    "capymoa:SGBT": ("capymoa:StreamingGradientBoostedTrees", "capymoa:StreamingGradientBoostedRegression"),
    "capymoa:SAMkNN": ("capymoa:SAMkNN", ""),
    "capymoa:LeveragingBagging": ("capymoa:LeveragingBagging(ensemble_size=10)", ""),
    "capymoa:AutoClass": ("capymoa:automl.AutoClass(configuration_json={settings!r})", ""),
    "capymoa:SOKNL": ("", "capymoa:SOKNL"),
    "river:ARF10": ("river:ARF10", "river:ARF10"),
}
"""Models of other libraries for classes and for numbers, as ``driftsurf compare`` knows them; "" if there is none."""
SEARCHED: Mapping[str, list[tuple[Any, ...]]] = {
    "lazy.kNN": [("k", "integer", 10, [2, 30])],
    "trees.HoeffdingTree": [("g", "integer", 200, [10, 200]), ("c", "float", 0.01, [0, 1])],
    "trees.HoeffdingAdaptiveTree": [("g", "integer", 200, [10, 200]), ("c", "float", 0.01, [0, 1])],
}
"""Models of MOA among which AutoClass searches, with their options, first values and ranges."""
TRAINED = {
    "lightgbm": ("LGBMClassifier", "LGBMRegressor"),
    "histogram boosting": ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
    "linear": ("logistic", "linear"),
}
"""Learners of schedules for classes and for numbers, as ``driftsurf compare`` names them."""
EVERY = 100, 500, 2_000
"""Schedules: a fit after so many new rows, to so many of the last rows (``ROWS`` of ``driftsurf compare``)."""
RETRAINED = tuple(f"retrain {name} {every}/{rows}" for name in TRAINED for every in EVERY for rows in ROWS)
DEFAULT_RETRAINED = tuple(f"retrain {name} 500/{rows}" for name in TRAINED for rows in ROWS)
REPEAT = "repeat the last label"
MODELS = (*OURS, *RIVALS, *DEFAULT_RETRAINED, REPEAT)
PACES, DELAYS, USUAL_PACE = (1, 10, 100, 1_000), (0, 1, 10), 100
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
    commit: str = "unknown"


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


def make(name: str, rows: StreamInMemory, pace: int, delay: int) -> Runner:
    """Return a model for a stream; CapabilityError or MissingExtraError if there is none."""
    numbers = not rows.labels
    task: Any = "regression" if numbers else "classification"
    known: dict[str, Any] = {} if numbers else {"classes": rows.classes}
    if name == REPEAT:
        last = [0.0]
        return Runner(lambda X: np.full(len(X), last[0]), lambda X, y: last.__setitem__(0, float(y[-1])))
    if name.startswith("retrain "):
        job = retrained(name, pace, numbers).make(Situation(len(rows.labels), pace))
        return Runner(job.predict, lambda X, y: job.learn(X, y, **known))
    if name in OURS:
        ours = _recommended(name, task)

        def learn(X: FloatArray, y: npt.NDArray[Any]) -> None:
            begins = ours.__sklearn_is_fitted__()
            ours.partial_fit(X, y, **known)
            if delay and not begins:
                ours._session.expect_late_labels()

        return Runner(ours.predict, learn)
    known_as = RIVALS.get(name, (name, name))[numbers].format(settings=search_settings())
    if not known_as:
        raise CapabilityError(f"{name} does not predict {'numbers' if numbers else 'classes'}")
    peer: Any = rival(known_as).make(Situation(len(rows.labels), pace))
    return Runner(
        lambda X: np.asarray(peer.predict(X), float), lambda X, y: peer.partial_fit(X, y, known.get("classes", ()))
    )


@functools.cache
def search_settings() -> str:
    """Write the settings of AutoClass, which reads them from a file, and return its path."""
    names = "parameter", "type", "value", "range"
    algorithms = [
        {"algorithm": f"moa.classifiers.{name}", "parameters": [dict(zip(names, one, strict=True)) for one in options]}
        for name, options in SEARCHED.items()
    ]
    settings = {
        "windowSize": 1_000,
        "ensembleSize": 10,
        "newConfigurations": 10,
        "lambda": 0.05,
        "algorithms": algorithms,
    }
    switches = "keepCurrentModel", "preventAlgorithmDeath", "keepGlobalIncumbent", "keepAlgorithmIncumbents"
    settings |= dict.fromkeys((*switches, "keepInitialConfigurations", "useTestEnsemble"), True)
    settings |= {"resetProbability": 0.01, "numberOfCores": 1, "performanceMeasureMaximisation": True}
    path = Path(tempfile.mkdtemp()) / "settings.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return str(path)


def retrained(name: str, pace: int, numbers: bool) -> ComparedModel:
    """Return the model of ``driftsurf compare`` that is retrained on a schedule in rows: in calls of this pace."""
    kind, _, plan = name.removeprefix("retrain ").rpartition(" ")
    every, window = map(int, plan.split("/"))
    _, found = schedules(f"best-schedule(every={max(1, every // pace)}, rows={window})", regression=numbers)
    chosen = [one.model for one in found if one.learner == TRAINED[kind][numbers]]
    if not chosen:
        raise MissingExtraError(f"{kind} is not installed")
    return rival(chosen[0])


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
    warm = make(part.model, rows, part.pace, part.delay)  # the time to load libraries and to start Java does not count
    warm.learn(X[:FIRST], y[:FIRST])
    warm.predict(X[:1])
    began = time.process_time()
    model = make(part.model, rows, part.pace, part.delay)
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
    return Found([float(one.mean()) for one in parts if len(one)], float(losses[FIRST:START].mean()), seconds, commit())


@functools.cache
def commit() -> str:
    """Return the commit of the code that is measured."""
    asked = ["git", "rev-parse", "--short=8", "HEAD"]
    found = subprocess.run(asked, cwd=Path(__file__).parent, text=True, capture_output=True, check=False)
    return found.stdout.strip() or "unknown"


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


def run(parts: Sequence[Part], results: Results, hours: float, *, again: bool) -> None:
    """Run all parts that are not known yet, until the time is over."""
    missing, end = set[str](), time.monotonic() + 3_600.0 * hours
    for place, part in enumerate(parts):
        package, known = part.model.partition(":")[0], results.found.get(part)
        if package in missing or (part in results.found and not (again and known and known.commit != commit())):
            continue
        if time.monotonic() > end:
            print(f"{hours:g} hours are over; the same command continues", flush=True)
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = perform(part)
        except CapabilityError:
            results.add(part, None)
            continue
        except MissingExtraError as lack:
            missing.add(package)
            print(f"{lack}: models of {package} are left out", flush=True)
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
    """Print wins, levels and losses of a model at each pace and delay, its errors, and what the models cost."""
    commits = sorted({found.commit for found in results.found.values() if found is not None})
    print(f"Measured at {', '.join(commits)}.")
    for (pace, delay), streams in rounds(results):
        print(f"\n### {pace} row{'s' * (pace > 1)} in a call, labels {delay} calls late: {len(streams)} streams\n")
        print(f"| {ours} against | wins | level | losses | difference | 95 % | within {NEAR} | start | CPU |")
        print("|---|---:|---:|---:|---:|---|---:|---:|---:|")
        others = sorted({name for models in streams.values() for name in models} - {ours})
        for name in others:
            pairs = [(models[ours], models[name]) for models in streams.values() if {ours, name} <= models.keys()]
            if pairs:
                print(f"| {name} | {against(pairs)} |")
        shown = [ours, *(name for name in others if not name.startswith("retrain") or name.endswith("of all"))]
        print(f"\n| stream | {' | '.join(shown)} |\n|---|{'---:|' * len(shown)}")
        for (stream, seed, _), models in sorted(streams.items()):
            cells = [f"{np.mean(models[name].errors):.4f}" if name in models else "" for name in shown]
            mark = " *" if stream.partition("/")[0] in CHOSEN_ON else ""
            print(f"| {stream}, seed {seed}{mark} | {' | '.join(cells)} |")
        costs(streams)
    print("\n\\* settings were chosen on this stream; on generated ones, with other seeds.")


def against(pairs: Sequence[tuple[Found, Found]]) -> str:
    """Return wins, levels, losses and the other cells of a model beside another one on the same streams."""
    each = [difference(*pair) for pair in pairs]
    wins, losses = sum(high < 0.0 for _, _, high in each), sum(low > 0.0 for _, low, _ in each)
    near = np.mean([mean <= NEAR for mean, _, _ in each])
    low, high = _of_streams([mean for mean, _, _ in each])
    start = np.mean([a.start for a, _ in pairs]) / np.mean([b.start for _, b in pairs])
    cost = sum(a.seconds for a, _ in pairs) / sum(b.seconds for _, b in pairs)
    counts = f"{wins} | {len(each) - wins - losses} | {losses} | {np.mean([mean for mean, _, _ in each]):+.4f}"
    return f"{counts} | {low:+.4f} to {high:+.4f} | {near:.0%} | {start:.2f} | {cost:.2f}"


def costs(streams: Mapping[tuple[str, int, int], Mapping[str, Found]]) -> None:
    """Print the CPU seconds of each model beside those of the forest, over the streams that both have run."""
    both = [models for models in streams.values() if FOREST in models]
    if not both:
        print(f"\n{FOREST} was not run: there is nothing to compare CPU seconds with.")
        return
    print(f"\n| model | streams | CPU s | of {FOREST} | at most |\n|---|---:|---:|---:|---|")
    for name in sorted({name for models in both for name in models if not name.startswith("retrain, best")}):
        of = [(models[name].seconds, models[FOREST].seconds) for models in both if name in models]
        mine, its = map(sum, zip(*of, strict=True))
        goal = SHARES.get(name)
        held = "" if goal is None else f"{goal}: {'holds' if mine <= goal * its else 'does not hold'}"
        print(f"| {name} | {len(of)} | {mine:.1f} | {mine / its:.2f} | {held} |")


def _of_streams(differences: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a mean over streams, which are drawn again."""
    values = np.asarray(differences)
    drawn = np.random.default_rng(0).integers(0, len(values), (2_000, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    made = argparse.ArgumentParser(prog="python -m benchmarks arena", description="Models against each other.")
    made.add_argument("--streams", nargs="+", default=JUDGES, metavar="NAME", help=f"of {', '.join(STREAMS)}")
    made.add_argument("--models", nargs="+", default=MODELS, metavar="NAME", help=f"of {', '.join(MODELS)}, ...")
    made.add_argument("--paces", nargs="+", type=int, help="rows of a call (default: 1 10 100 1000)")
    made.add_argument("--delays", nargs="+", type=int, help="calls (default: 0; with 100 rows also 1 and 10)")
    made.add_argument("--all", action="store_true", help="every stream, model, pace and delay: some days")
    made.add_argument("--seeds", nargs="+", type=int, default=(11,), help="of generated streams (default: 11)")
    made.add_argument("--rows", type=int, default=5_000, help="first rows of each stream (default: 5,000)")
    made.add_argument("--hours", type=float, default=4.0, help="begin no part after so many hours (default: 4)")
    made.add_argument("--out", type=Path, default=Path("benchmarks/results/arena.jsonl"))
    made.add_argument("--again", action="store_true", help="measure what was measured at another commit again")
    made.add_argument("--report", action="store_true", help="print what is known, and run nothing")
    return made


def main(arguments: Sequence[str]) -> None:
    """Run what is asked for on the command line."""
    options = parser().parse_args(arguments)
    results = Results(options.out)
    if not options.report:
        run(chosen(options), results, options.hours, again=options.again)
    report(results)


def chosen(options: argparse.Namespace) -> list[Part]:
    """Return the parts that the options ask for: those with 100 rows in a call and labels at once first."""
    streams, models = options.streams, options.models
    if options.all:
        streams, models = STREAMS, (*OURS, *RIVALS, *RETRAINED, REPEAT)
    calls = [(pace, delay) for pace in options.paces or PACES for delay in options.delays or DELAYS]
    if not options.all and options.delays is None:
        calls = [(pace, delay) for pace, delay in calls if delay == 0 or pace == USUAL_PACE]
    calls.sort(key=lambda call: (call[0] != USUAL_PACE, call))
    return [
        Part(stream, seed, options.rows, pace, delay, model)
        for pace, delay in calls
        for stream in streams
        for seed in (options.seeds if stream not in (*REAL, *INJECTED, *NUMBERS) else options.seeds[:1])
        for model in models
    ]
