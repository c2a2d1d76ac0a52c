"""Start-up time of imports, first steps and commands in new processes, compared with numpy and scikit-learn."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness import Contender, Contest

ROWS = """
import numpy as np
X = np.random.default_rng(0).normal(size=(100, 3))
y = (X[:, 0] > 0).astype(int)
"""
FIRST_STEPS = {
    "SGDClassifier": "from sklearn.linear_model import SGDClassifier as Model",
    "DriftSurfClassifier": "from driftsurf import DriftSurfClassifier as Model",
    "recommended-linear": "from driftsurf import recommended\nModel = lambda: recommended('linear')",
}


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield the contests: light imports against numpy, a first step and a first run against scikit-learn."""
    yield Contest(
        "light starts",
        "start",
        "import numpy",
        [
            _python("import numpy", "-c", "import numpy"),
            _python("import driftsurf", "-c", "import driftsurf"),
            _python("driftsurf --help", "-m", "driftsurf", "--help"),
        ],
    )
    yield Contest(
        "import and first partial_fit",
        "start",
        "SGDClassifier",
        [
            _python(name, "-c", f"{code}\n{ROWS}\nModel().partial_fit(X, y, classes=[0, 1])")
            for name, code in FIRST_STEPS.items()
        ],
    )
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        _write(table, 10_000)
        run = (
            "-m",
            "driftsurf",
            "run",
            str(table),
            "--label",
            "bought",
            "--quiet",
            "--overwrite",
            "--out",
            folder + "/run",
        )
        yield Contest(
            "a whole command, report included",
            "start",
            "import sklearn.linear_model",
            [
                _python("import sklearn.linear_model", "-c", "import sklearn.linear_model"),
                _python("driftsurf run, 10,000 rows", *run),
                _python("driftsurf run, 10,000 rows, DriftSurf", *run, "--model", "driftsurf"),
            ],
        )


def _write(path: Path, rows: int) -> None:
    """Write a table with numbers, text, a text label, and a drift in its middle."""
    draw = np.random.default_rng(0)
    price, age = draw.normal(size=(2, rows)).round(4)
    city = draw.choice(["Rome", "Oslo", "Bern"], rows)
    bought = np.where(price + np.where(np.arange(rows) < rows // 2, age, -age) > 0, "yes", "no")
    lines = [f"{a},{b},{c},{d}\n" for a, b, c, d in zip(price, age, city, bought, strict=True)]
    path.write_text("price,age,city,bought\n" + "".join(lines))


def _python(name: str, *arguments: str) -> Contender:
    def run(_: None) -> float:
        begun = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begun

    return Contender(name, 1, lambda: None, run, remark=lambda seconds: f"{seconds:.2f} s elapsed")
