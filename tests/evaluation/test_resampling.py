"""The bootstrap over blocks of steps and over seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from driftsurf.errors import InputError, OptionError
from driftsurf.evaluation.ranks import interval, resampled_means


def plain_means(tables: list[np.ndarray], resamples: int, seed: int) -> np.ndarray:
    """Return the means of ``resampled_means``, computed resample by resample in plain loops."""
    generator = np.random.default_rng(seed)
    steps = tables[0].shape[1]
    length = math.ceil(steps ** (1 / 3))
    starts = generator.integers(steps, size=(resamples, math.ceil(steps / length)))
    chosen = [[(s + k) % steps for s in row for k in range(length)][:steps] for row in starts.tolist()]
    means = np.empty((resamples, len(tables)))
    for k, table in enumerate(tables):
        counts = generator.multinomial(len(table), np.full(len(table), 1 / len(table)), size=resamples)
        for r in range(resamples):
            seeds = [s for s, count in enumerate(counts[r]) for _ in range(count)]
            means[r, k] = np.mean([table[s, t] for s in seeds for t in chosen[r]])
    return means


@pytest.mark.parametrize(("seeds", "steps"), [(1, 1), (1, 33), (3, 99), (2, 100)])
def test_resampled_means_are_those_of_resampled_steps_and_seeds(seeds: int, steps: int) -> None:
    rng = np.random.default_rng(steps)
    tables = [rng.random((seeds, steps)) for _ in range(3)]
    assert resampled_means(tables, resamples=7, seed=5) == pytest.approx(plain_means(tables, 7, 5))


def test_a_difference_that_is_always_there_is_sure_however_much_both_vary() -> None:
    rng = np.random.default_rng(0)
    hard = rng.random((1, 100))
    means = resampled_means([hard, hard + 0.01])
    gap = means[:, 1] - means[:, 0]
    assert gap == pytest.approx(0.01)
    assert means[:, 0].std() > 0.01


def test_blocks_make_intervals_wider_where_errors_come_in_runs() -> None:
    rng = np.random.default_rng(1)
    runs = np.repeat(rng.random(25), 8)[None, :]
    mixed = rng.permutation(runs[0])[None, :]
    assert resampled_means([runs]).std() > 1.5 * resampled_means([mixed]).std()


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for trial in range(200):
        errors = 0.3 + 0.1 * rng.normal(size=(1, 100))
        found = interval(float(errors.mean()), resampled_means([errors], resamples=300, seed=trial)[:, 0])
        covered += found.low <= 0.3 <= found.high
    assert 0.85 <= covered / 200 <= 0.99


@pytest.mark.parametrize("errors", [[], [[0.1, 0.2]], [[[0.1]], [[0.1, 0.2]]], [[[]]]])
def test_errors_of_other_shapes_are_refused(errors: list[object]) -> None:
    with pytest.raises(InputError, match="errors"):
        resampled_means(errors)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="level"):
        interval(0.1, np.zeros(3), level=1.0)
