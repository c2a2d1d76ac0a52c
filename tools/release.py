"""Build a release and check it as a user would meet it: ``python -m tools.release [--tag | --tagged TAG]``.

The sdist and the wheel are built into ``dist/`` and checked with twine. The wheel is installed with the locked versions
of its dependencies in an empty environment, where a smoke test runs. A bill of materials (CycloneDX) of that
environment is written beside them. With ``--tag`` the commit is tagged. With ``--tagged v1.2.3`` it has this tag
already, which must be that of the version.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
SMOKE = """
import driftsurf
from driftsurf.streams import Mixed

model = driftsurf.DriftSurfClassifier(random_state=0)
wrong = rows = 0
for X, y in Mixed(n_rows=10_000).batches(500):
    wrong, rows = wrong + (model.test_then_train(X, y) != y).sum(), rows + len(y)
assert wrong < 0.35 * rows, (wrong, rows)
driftsurf.save(model, "model.state")
assert (driftsurf.load("model.state").predict(X) == model.predict(X)).all()
print(f"driftsurf {driftsurf.__version__}: error {wrong / rows:.3f} on a built-in stream")
"""


def run(*args: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """Run a command, print it, and return its output; end with its output if it fails."""
    print("$", *(str(arg).partition("\n")[0] or "..." for arg in args), flush=True)
    # An activated environment must not lend its packages to the one that is tested.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(arg) for arg in args], cwd=cwd, env=kept | variables, text=True, capture_output=True, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}exit code {done.returncode}")
    return done.stdout


def version() -> str:
    """Return the version that is written in the package."""
    found = re.search(r'^__version__[^=\n]*= "([^"]+)"', (ROOT / "src/driftsurf/__init__.py").read_text(), re.MULTILINE)
    if found is None:
        sys.exit("src/driftsurf/__init__.py names no __version__")
    return found[1]


def check_changelog(number: str) -> None:
    """End with an error unless the changelog has a dated heading for this version."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    if not re.search(rf"^## {re.escape(number)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE):
        sys.exit(f"CHANGELOG.md has no heading '## {number} (YYYY-MM-DD)'; rename 'Unreleased' to it")


def check_tag(tag: str, number: str) -> None:
    """End with an error unless a tag is that of the version."""
    if tag != f"v{number}":
        sys.exit(f"the tag {tag!r} does not belong to the version {number}; tag it 'v{number}', or set __version__")


def build(epoch: str) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; return both."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST, SOURCE_DATE_EPOCH=epoch)
    (sdist,), (wheel,) = list(DIST.glob("*.tar.gz")), list(DIST.glob("*.whl"))
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    return sdist, wheel


def check_content(wheel: Path) -> None:
    """End with an error unless the wheel holds every file of the package that is in git, and nothing else."""
    wanted = {name.removeprefix("src/") for name in run("git", "ls-files", "src/driftsurf").splitlines()}
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if name.startswith("driftsurf/")}
    if wanted != found:
        sys.exit(f"the wheel differs from git: {sorted(wanted ^ found)[:10]}")


def install(wheel: Path, place: Path) -> Path:
    """Install the wheel in an empty environment with locked dependencies; return its folder of programs."""
    venv.create(place, with_pip=True)
    programs = place / ("Scripts" if os.name == "nt" else "bin")
    pip = programs / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps"
    run(*pip, "--require-hashes", "--requirement", ROOT / "requirements/core.txt")
    run(*pip, wheel)
    run(programs / "python", "-m", "pip", "check")
    return programs


def smoke(programs: Path, number: str, place: Path) -> None:
    """Use the installed package in an empty folder."""
    place.mkdir()
    printed = run(programs / "driftsurf", "--version", cwd=place)
    if number not in printed:
        sys.exit(f"driftsurf --version prints {printed!r} instead of {number}")
    print(run(programs / "python", "-c", SMOKE, cwd=place), end="")
    run(programs / "driftsurf", "run", "mixed", "--rows", "4000", "--out", "run", "--quiet", cwd=place)
    if not (place / "run" / "report.html").exists():
        sys.exit("driftsurf run wrote no report")
    run(programs / "driftsurf", "explain", "run", cwd=place)


def write_bill(programs: Path, number: str) -> None:
    """Write the bill of materials of the installed environment."""
    path = DIST / f"driftsurf-{number}.cdx.json"
    own = Path(sys.executable).parent / "cyclonedx-py"
    run(own, "environment", programs / "python", "--output-reproducible", "--output-file", path)
    parts = {part["name"] for part in json.loads(path.read_text())["components"]}
    if not {"driftsurf", "numpy", "numba"} <= parts:
        sys.exit(f"{path} does not list the package and its dependencies: {sorted(parts)[:10]}")
    print(f"{path.relative_to(ROOT)}: {len(parts)} components")


def main() -> None:
    """Build and check a release."""
    parser = argparse.ArgumentParser(description="Build a release and check it.")
    parser.add_argument("--tag", action="store_true", help="tag the commit; all changes must be committed")
    parser.add_argument("--tagged", metavar="TAG", help="the tag that the commit has, from which it is published")
    args = parser.parse_args()
    number = version()
    if args.tagged is not None:
        check_tag(args.tagged, number)
    if args.tag or args.tagged is not None:
        check_changelog(number)
    if args.tag and run("git", "status", "--porcelain"):
        sys.exit("the working tree has changes; commit them before the release")
    sdist, wheel = build(run("git", "log", "-1", "--format=%ct").strip())
    check_content(wheel)
    with tempfile.TemporaryDirectory() as place:
        programs = install(wheel, Path(place) / "environment")
        smoke(programs, number, Path(place) / "empty")
        write_bill(programs, number)
    if args.tag:
        run("git", "tag", "--annotate", f"v{number}", "--message", f"driftsurf {number}")
    print(f"driftsurf {number}: {sdist.name}, {wheel.name}, " + (f"tagged v{number}" if args.tag else "not tagged"))


if __name__ == "__main__":
    main()
