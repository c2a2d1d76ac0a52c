"""Compare what every kind of model computes, to the bit, between builds of the native core and kinds of processors.

Run it from the root of the repository::

    python -m tools.same_bits                    # every build that this machine can make
    python -m tools.same_bits gcc-O0 zig         # some of them
    python -m tools.same_bits --write            # store the digests of the installed build, after a change of results

A build is compiled into a folder of its own. A process that imports the core from there learns the cases of
``tests/support/golden_cases.py``, saves them halfway, loads them and learns on, and prints a digest of the saved bytes
and of every number that follows. All builds have to print the digests of ``tests/native/bits.json``. Cases that need a
library with compiled code of its own, such as LightGBM, are left out: their bits are those of that library.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXPECTED = ROOT / "tests" / "native" / "bits.json"
ZIG = "{python} -m ziglang cc -mcpu=baseline -fno-sanitize=undefined"
GROUPS = "strategies", "learners", "options", "portfolios", "frames", "fleets", "detectors"


@dataclass(frozen=True)
class Build:
    """A way to compile the native core, or to run it."""

    compiler: str = ""
    """Command of the compiler; empty for the build that is installed."""
    flags: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the process that learns."""

    @property
    def missing(self) -> str:
        """What this machine lacks for the build; empty if it lacks nothing."""
        program = self.compiler.split()[:1]
        if not program:
            return ""
        if "ziglang" in self.compiler:
            return "" if _runs(sys.executable, "-c", "import ziglang") else "the package ziglang"
        return "" if shutil.which(program[0]) else program[0]


BUILDS = {
    "installed": Build(),
    "gcc-O0": Build("gcc", ("-O0",)),
    "gcc-O1": Build("gcc", ("-O1",)),
    "gcc-v3": Build("gcc", ("-march=x86-64-v3",)),
    "gcc-native": Build("gcc", ("-march=native",)),
    "clang": Build("clang"),
    "zig": Build(ZIG),
    "zig-v3": Build(ZIG.replace("baseline", "x86_64_v3")),
    # Neither the vector instructions of numpy nor those of the BLAS may reach a decision.
    "numpy without vectors": Build(
        environment=(("NPY_DISABLE_CPU_FEATURES", "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_ICL"),)
    ),
    "another BLAS kernel": Build(environment=(("OPENBLAS_CORETYPE", "Prescott"),)),
}


def _runs(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def digests() -> dict[str, str]:
    """Return a digest for each case: of what is saved halfway, and of what it leads to."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    import golden_cases

    found = {}
    for group in GROUPS:
        for name, case in golden_cases.GROUPS[group]():
            if case.libraries:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                place = Path(scratch)
                case.begin(place)
                digest = hashlib.sha256()
                for path in sorted(place.rglob("*")):
                    digest.update(path.read_bytes() if path.is_file() else b"")
                digest.update(json.dumps(case.go_on(place)).encode())
            found[f"{group}/{name}"] = digest.hexdigest()[:16]
    return found


def digests_of(build: Build) -> dict[str, str]:
    """Return the digests that a new process prints with this build."""
    with tempfile.TemporaryDirectory() as scratch:
        if build.compiler:
            compiler = build.compiler.format(python=sys.executable)
            out, objects = Path(scratch) / "modules", Path(scratch) / "objects"
            make = [sys.executable, str(ROOT / "hatch_build.py"), "--out", str(out), "--objects", str(objects)]
            environment = os.environ | {"CC": compiler}
            subprocess.run([*make, "--", *build.flags], check=True, env=environment, stdout=subprocess.DEVNULL)
            load = f"import driftsurf.native; driftsurf.native.__path__.insert(0, {str(out)!r}); "
        else:
            load = ""
        code = f"{load}from tools import same_bits; same_bits.main(['--digests'])"
        environment = os.environ | dict(build.environment)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            check=False,
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"the process that learns ended with {done.returncode}")
    known: dict[str, str] = json.loads(done.stdout)
    return known


def differing(expected: dict[str, str], found: dict[str, str]) -> Iterator[str]:
    """Yield the cases whose digests differ."""
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            yield name


def main(arguments: list[str] | None = None) -> None:
    """Print the digests, store them, or compare builds; exit with 1 if any differs."""
    parser = argparse.ArgumentParser(prog="python -m tools.same_bits", description=__doc__.splitlines()[0])
    parser.add_argument(
        "builds", nargs="*", metavar="build", help=f"builds to compare (default: all): {', '.join(BUILDS)}"
    )
    parser.add_argument("--digests", action="store_true", help="print the digests of this process")
    parser.add_argument("--write", action="store_true", help="store the digests of the installed build")
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.builds if name not in BUILDS]:
        parser.error(f"no build is called {unknown[0]!r}; choices: {', '.join(BUILDS)}")
    if chosen.digests or chosen.write:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = json.dumps(digests(), indent=1)
        if chosen.write:
            EXPECTED.write_text(text + "\n")
        else:
            print(text)
        return
    expected: dict[str, str] = json.loads(EXPECTED.read_text())
    failed = False
    for name in chosen.builds or BUILDS:
        build = BUILDS[name]
        if build.missing:
            print(f"{name}: skipped, this machine has no {build.missing}", flush=True)
            continue
        wrong = list(differing(expected, digests_of(build)))
        failed = failed or bool(wrong)
        verdict = f"{len(wrong)} of {len(expected)} cases differ: {', '.join(wrong[:5])}" if wrong else "the same bits"
        print(f"{name}: {verdict}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
