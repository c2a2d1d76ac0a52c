"""Build a release and check it as a user would meet it: ``python -m tools.release [--tag | --tagged TAG]``.

The sdist, and from it a wheel for each kind of machine in ``hatch_build.TARGETS``, which zig's compiler makes here, are
built into ``dist/`` and checked. The wheel for this machine is installed with the locked versions of its dependencies
in an empty environment, where a smoke test runs. A bill of materials (CycloneDX) of that environment is written beside
them. With ``--tag`` the commit is tagged. With ``--tagged v1.2.3`` it has this tag already, which must be that of the
version.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

from hatch_build import TARGETS

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


def build(epoch: str) -> tuple[Path, dict[str, Path]]:
    """Build the sdist, and a wheel from it for each target; return them."""
    shutil.rmtree(DIST, ignore_errors=True)
    make = sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST
    run(*make, "--sdist", SOURCE_DATE_EPOCH=epoch)
    (sdist,) = DIST.glob("*.tar.gz")
    wheels = {}
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(sdist) as archive:
            archive.extractall(place, filter="data")
        (sources,) = Path(place).iterdir()
        for target, tag in TARGETS.items():
            print(f"# for {target}")
            run(*make, "--wheel", sources, SOURCE_DATE_EPOCH=epoch, DRIFTSURF_TARGET=target)
            (wheels[target],) = DIST.glob(f"*-cp311-abi3-{tag}.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, *wheels.values())
    return sdist, wheels


def check_content(wheel: Path, target: str) -> None:
    """End with an error unless the wheel has what belongs to the package and a module for each of the core's."""
    known = {name.removeprefix("src/") for name in run("git", "ls-files", "src/driftsurf").splitlines()}
    compiled = {name for name in known if name.endswith((".pyx", ".pxd", ".c", ".h", ".inc"))}
    modules = {name.removesuffix(".pyx") + ".abi3.so" for name in compiled if name.endswith(".pyx")}
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if name.startswith("driftsurf/")}
        for name in sorted(found & modules):
            if fault := fault_of(archive.read(name), target):
                sys.exit(f"{name} in {wheel.name} {fault}")
    wanted = known - compiled | modules | {"driftsurf/native/compiled-from.txt"}
    if wanted != found:
        sys.exit(f"{wheel.name} differs from git: {sorted(wanted ^ found)[:10]}")


def fault_of(module: bytes, target: str) -> str:
    """Return what is wrong with a compiled module for a target; empty if nothing is."""
    machine = target.split("-")[0]
    if "macos" in target:  # the magic number of a 64-bit Mach-O file and the type of the processor
        wanted = 0xFEEDFACF, {"x86_64": 0x01000007, "aarch64": 0x0100000C}[machine]
        return "" if struct.unpack_from("<II", module) == wanted else f"is not for {target}"
    (elf,) = struct.unpack_from("<H", module, 18)
    if module[:4] != b"\x7fELF" or elf != {"x86_64": 62, "aarch64": 183}[machine]:
        return f"is not for {target}"
    used = {tuple(map(int, one.split(b"."))) for one in re.findall(rb"GLIBC_([0-9.]+)", module)}
    oldest = tuple(map(int, target.partition("gnu.")[2].split("."))) if "gnu" in target else ()
    return f"needs glibc {max(used)}" if used and max(used) > oldest else ""


def own_target() -> str:
    """Return the target whose wheel runs on this machine."""
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    kind = "macos" if sys.platform == "darwin" else "musl" if platform.libc_ver()[0] != "glibc" else "gnu"
    return next(target for target in TARGETS if target.startswith(machine) and kind in target)


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
    if not {"driftsurf", "numpy", "lightgbm"} <= parts:
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
    sdist, wheels = build(run("git", "log", "-1", "--format=%ct").strip())
    for target, wheel in wheels.items():
        check_content(wheel, target)
    with tempfile.TemporaryDirectory() as place:
        programs = install(wheels[own_target()], Path(place) / "environment")
        smoke(programs, number, Path(place) / "empty")
        write_bill(programs, number)
    if args.tag:
        run("git", "tag", "--annotate", f"v{number}", "--message", f"driftsurf {number}")
    print(
        f"driftsurf {number}: {sdist.name} and {len(wheels)} wheels, "
        + (f"tagged v{number}" if args.tag else "not tagged")
    )


if __name__ == "__main__":
    main()
