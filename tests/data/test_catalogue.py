"""The catalogue of streams: names, order, and facts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import driftsurf.streams
from driftsurf.data import catalogue
from driftsurf.errors import OptionError


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("sea0", (25, 50, 75)),
        ("sea-gradual", (40, 60)),
        ("hyper-slow", ()),
        ("hyper-fast", ()),
        ("sine1", (20, 40, 60, 80)),
        ("mixed", (20, 40, 60, 80)),
        ("circles", (25, 30, 50, 55, 75, 80)),
        ("friedman", (50, 75)),
        ("friedman-gradual", (50, 60, 75, 85)),
        ("friedman-local", (25, 50, 75)),
        ("recurring", tuple(range(5, 100, 5))),
    ],
)
def test_the_steps_of_aware_are_the_papers(name: str, steps: tuple[int, ...]) -> None:
    stream = catalogue.get(name).make()
    assert stream.drift_steps(stream.n_rows // 100) == steps


def test_public_names_exist_and_scikit_learn_stays_away() -> None:
    assert all(hasattr(driftsurf.streams, name) for name in driftsurf.streams.__all__)
    code = "import sys, driftsurf.streams, driftsurf.data.catalogue; sys.exit('sklearn' in sys.modules)"
    environment = {"PYTHONPATH": str(Path(driftsurf.__path__[0]).parent)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_the_catalogue_knows_the_streams_of_the_paper() -> None:
    generated = [
        "sea0",
        "sea10",
        "sea20",
        "sea30",
        "sea-gradual",
        "hyper-slow",
        "hyper-fast",
        "sine1",
        "mixed",
        "circles",
    ]
    real = ["rcv1", "covertype", "airline", "electricity", "powersupply"]
    stand_ins = ["covertype-sample", "airline-2007", "newsgroups20", "spam-assassin"]
    assert list(catalogue.CATALOGUE.paper) == generated + real
    others = ["friedman", "friedman-gradual", "friedman-local", "recurring", "recurring-rare"]
    assert list(catalogue.CATALOGUE) == generated + real + stand_ins + others
    assert list(catalogue.CATALOGUE.for_experiments) == generated + real + stand_ins
    made = [catalogue.CATALOGUE[name].make() for name in generated]
    assert len({stream.name for stream in made}) == len(made)
    for name, stream in zip(generated, made, strict=True):
        entry = catalogue.CATALOGUE[name]
        assert (entry.n_rows, entry.n_features) == (stream.n_rows, stream.n_features)
        assert entry.batch_size == stream.n_rows // 100
    with pytest.raises(OptionError, match="'hyper-slow'") as caught:
        catalogue.get("hyperslow")
    assert all(name in str(caught.value) for name in catalogue.CATALOGUE)
    with pytest.raises(OptionError, match=r"'zzz'.*sea0"):
        catalogue.get("zzz")
