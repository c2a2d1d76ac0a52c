"""The package in ``examples``: installed, its strategy and its learner work wherever those of driftsurf do."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "examples" / "driftsurf-mystrategy"
MODEL = "periodic-reset(period=3):centroid"
PERIOD, BATCH, ROWS = 3, 50, 1600


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package from a copy of its source into a folder, without a network."""
    folder = tmp_path_factory.mktemp("installed")
    copy = folder / "source"
    shutil.copytree(SOURCE, copy)
    target = folder / "packages"
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", target, copy], check=True)
    return target


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with three shops, whose label is inverted in the second half."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, ROWS)).round(4)
    sold = np.where((a > b) == (np.arange(ROWS) < ROWS // 2), "yes", "no")
    lines = [f"s{i % 3},{i},{a[i]},{b[i]},{sold[i]}" for i in range(ROWS)]
    path = tmp_path_factory.mktemp("table") / "rows.csv"
    path.write_text("\n".join(["shop,at,a,b,sold", *lines]) + "\n", encoding="utf-8")
    return path


def environment(installed: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(installed)])}


def python(installed: Path, *arguments: object) -> str:
    """Run Python in a process that can import the package; return its output."""
    command = [sys.executable, *map(str, arguments)]
    run = subprocess.run(command, env=environment(installed), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def driftsurf(installed: Path, *arguments: object) -> str:
    return python(installed, "-m", "driftsurf", *arguments)


READING = "--label", "sold", "--drop", "shop", "--drop", "at", "--batch-size", BATCH


def test_without_the_package_its_names_are_refused(table: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "driftsurf", "run", str(table), *map(str, READING), "--model", MODEL]
    command += ["--out", str(tmp_path / "run")]
    run = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "'periodic-reset'" in run.stderr


def test_both_parts_pass_the_checks_and_are_in_the_matrix(installed: Path) -> None:
    code = """
import driftsurf.registry as registry
from driftsurf.checks import check_learner, check_strategy
from driftsurf.checks.matrix import cells
from driftsurf.learners import LinearRegression, LogisticRegression

strategy, centroid = registry.get("strategy", "periodic-reset"), registry.get("learner", "centroid").make()
check_learner(centroid)
for learner in (centroid, LogisticRegression(start="uniform"), LinearRegression()):
    check_strategy(strategy.make(learner, period=2))
ran = [cell.run() for cell in cells(["NearestCentroid", "LogisticRegression"], ["PeriodicReset", "DriftSurf"])]
print(len(ran))
"""
    assert python(installed, "-c", code).split() == ["36"]


def test_a_run_uses_them_and_resumes_after_a_kill_with_the_same_bytes(
    installed: Path, table: Path, tmp_path: Path
) -> None:
    rows = table.read_text(encoding="utf-8").splitlines(keepends=True)
    growing = tmp_path / "rows.csv"
    growing.write_text("".join(rows[:1201]), encoding="utf-8")
    run = ["run", growing, *READING, "--model", MODEL, "--follow", "--every", 2, "--predictions"]
    first = [sys.executable, "-m", "driftsurf", *run, tmp_path / "killed.csv", "--checkpoint", tmp_path / "killed"]
    process = subprocess.Popen([*map(str, first)], env=environment(installed), stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "killed").glob("head-*")):
            assert time.monotonic() < deadline, "the run wrote no checkpoint"
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    growing.write_text("".join(rows), encoding="utf-8")
    ended = [*run[:-1], "--follow-for", 0.5, "--predictions"]
    driftsurf(installed, *ended, tmp_path / "killed.csv", "--checkpoint", tmp_path / "killed", "--resume")
    driftsurf(installed, *ended, tmp_path / "whole.csv", "--checkpoint", tmp_path / "whole")
    found = {}
    for name in ("killed", "whole"):
        result, parts = tmp_path / name / "result", sorted(tmp_path.glob(f"{name}-*.csv"))
        found[name] = [path.read_bytes() for path in (result / "journal.jsonl", result / "trace.csv", *parts)]
    assert found["killed"] == found["whole"]
    resets = [line for line in found["whole"][0].splitlines() if b'"reset"' in line]
    assert len(resets) == (ROWS // BATCH - 1) // PERIOD


def test_a_comparison_runs_the_strategy_and_the_learner_of_the_package(
    installed: Path, table: Path, tmp_path: Path
) -> None:
    models = f"{MODEL},driftsurf:centroid,periodic-reset,majority"
    driftsurf(installed, "compare", table, *READING, "--models", models, "--out", tmp_path, "--jobs", 1, "--quiet")
    found = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    errors = {one["model"]: one["error"]["value"] for one in found["overall"]["models"]}
    assert list(errors) == models.split(",")
    assert max(errors[MODEL], errors["driftsurf:centroid"]) < errors["majority"] - 0.1
    ledger = (tmp_path / "ledger.jsonl").read_text(encoding="utf-8")
    assert ledger.count("driftsurf_mystrategy 0.1.0") == 3


def test_its_estimator_is_saved_and_loaded_in_another_process(installed: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.state"
    made = """
import sys
import driftsurf, pickle
from driftsurf.estimators import PeriodicResetClassifier, estimator_class
from driftsurf.registry import get
from driftsurf.streams import SEA

model = PeriodicResetClassifier(get("learner", "centroid").make(scale=2.0), period=4, random_state=0)
for X, y in SEA(n_rows=1_000).batches(100):
    model.partial_fit(X, y)
assert estimator_class("periodic-reset") is PeriodicResetClassifier
assert pickle.loads(pickle.dumps(model)).to_bytes() == model.to_bytes()
driftsurf.save(model, sys.argv[1])
model.partial_fit(X, y)
print(model.predict(X).tolist(), model.get_params()["period"], model.learner.scale)
"""
    loaded = """
import sys
import driftsurf
from driftsurf.streams import SEA

model = driftsurf.load(sys.argv[1])
X, y = list(SEA(n_rows=1_000).batches(100))[-1]
model.partial_fit(X, y)
print(model.predict(X).tolist(), model.get_params()["period"], model.learner.scale)
"""
    assert python(installed, "-c", made, path) == python(installed, "-c", loaded, path)


def test_each_key_gets_its_own(installed: Path, table: Path, tmp_path: Path) -> None:
    keyed = ["run", table, "--label", "sold", "--key", "shop", "--sequence", "at", "--model", MODEL, "--batch-size", 20]
    driftsurf(installed, *keyed, "--out", tmp_path / "whole")
    driftsurf(installed, *keyed, "--out", tmp_path / "cut", "--epoch", 70)
    code = """
import sys
from pathlib import Path
from driftsurf.keyed.folder import KeyedFolder

for name in sys.argv[1:]:
    table = KeyedFolder(Path(name)).keys()
    print(sorted((key, entry["steps"], entry["digest"]) for key, entry in table.items()))
"""
    whole, cut = python(installed, "-c", code, tmp_path / "whole", tmp_path / "cut").splitlines()
    assert whole == cut
    assert [name in whole for name in ("('s0', 26,", "('s1', 26,", "('s2', 26,")] == [True] * 3
