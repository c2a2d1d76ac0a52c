"""Compare what every kind of model computes, to the bit, between builds of the native core and kinds of processors.

Run it from the root of the repository::

    python -m tools.same_bits                    # every build that this machine can make
    python -m tools.same_bits gcc-O0 zig         # some of them
    python -m tools.same_bits --write all        # store the digests of the installed build, after a change of results
    python -m tools.same_bits --write arithmetic # store only those of the arithmetic

A build is compiled into a folder of its own. A process that imports the core from there learns the cases of
``tests/support/golden_cases.py``, saves them halfway, loads them and learns on, and prints a digest of the saved bytes
and of every number that follows. All builds have to print the digests of ``tests/native/bits.json``. Cases that need a
library with compiled code of its own, such as LightGBM, are left out: their bits are those of that library.

For a processor that this machine only emulates, ``tests/native/arithmetic.c`` is compiled with the C files of the core
into a program without Python, which calls the whole arithmetic and prints digests.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import hatch_build

ROOT = Path(__file__).resolve().parents[1]
EXPECTED = ROOT / "tests" / "native" / "bits.json"
ARITHMETIC = ROOT / "tests" / "native" / "arithmetic.c"
CORE = ROOT / "src" / "driftsurf" / "native" / "c"
ZIG = "{python} -m ziglang cc -fno-sanitize=undefined"
FLAGS = "-std=gnu11", "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno"
"""Those of the flags of ``hatch_build.py`` that could change a result."""
FLUSHING = "SAME_BITS_FLUSHING"
"""Variable with which a process takes subnormal numbers for 0 outside of the core."""
GROUPS = "strategies", "learners", "options", "portfolios", "frames", "fleets", "detectors"


@dataclass(frozen=True)
class Build:
    """A way to compile the native core, or to run it."""

    compiler: str = ""
    """Command of the compiler; empty for the build that is installed."""
    flags: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the process that learns."""
    emulator: str = ""
    """Program that runs code for another processor: then only the arithmetic is compiled, and nothing learns."""

    @property
    def command(self) -> list[str]:
        """Command of the compiler, for this Python."""
        return shlex.split(self.compiler.format(python=shlex.quote(sys.executable)))

    @property
    def missing(self) -> str:
        """What this machine lacks for the build; empty if it lacks nothing."""
        if "ziglang" in self.compiler and not _runs(sys.executable, "-c", "import ziglang"):
            return "package ziglang"
        programs = [*self.command[:1], *([self.emulator] if self.emulator else [])]
        return next((program for program in programs if shutil.which(program) is None), "")


BUILDS = {
    "installed": Build(),
    "gcc-O0": Build("gcc", ("-O0",)),
    "gcc-O1": Build("gcc", ("-O1",)),
    "gcc-v3": Build("gcc", ("-march=x86-64-v3",)),
    "gcc-native": Build("gcc", ("-march=native",)),
    "clang": Build("clang"),
    "zig": Build(ZIG, ("-mcpu=baseline",)),
    "zig-v3": Build(ZIG, ("-mcpu=x86_64_v3",)),
    "without AVX2": Build("gcc", ("-O3",), environment=(("DRIFTSURF_NO_AVX2", "1"),)),
    "without AVX-512": Build("gcc", ("-O3",), environment=(("DRIFTSURF_NO_AVX512", "1"),)),
    # Neither the vector instructions of numpy nor those of the BLAS may reach a decision.
    "numpy without vectors": Build(
        environment=(("NPY_DISABLE_CPU_FEATURES", "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_ICL"),)
    ),
    # What a library built with -ffast-math sets in a thread.
    "subnormals off": Build(environment=((FLUSHING, "1"),)),
    "another BLAS kernel": Build(environment=(("OPENBLAS_CORETYPE", "Prescott"),)),
    "aarch64-gcc-O0": Build("aarch64-linux-gnu-gcc", ("-static", "-O0"), emulator="qemu-aarch64"),
    "aarch64-gcc-O3": Build("aarch64-linux-gnu-gcc", ("-static", "-O3"), emulator="qemu-aarch64"),
    "aarch64-zig": Build(f"{ZIG} -target aarch64-linux-musl", ("-O3",), emulator="qemu-aarch64"),
}


def _runs(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def arithmetic(build: Build) -> dict[str, str]:
    """Return the digests that the program of the arithmetic prints with this build."""
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch) / "arithmetic"
        sources = [str(ARITHMETIC), *map(str, sorted(CORE.glob("*.c")))]
        command = [*build.command, *FLAGS, *build.flags, f"-I{CORE}", *sources, "-o", str(program), "-lm"]  # sqrt
        subprocess.run(command, check=True)
        run = [*([build.emulator] if build.emulator else []), str(program)]
        environment = os.environ | dict(build.environment)
        printed = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    return {f"arithmetic/{name}": digest for name, digest in map(str.split, printed.splitlines())}


def digests(every: int = 1) -> dict[str, str]:
    """Return a digest for each case: of what is saved halfway, and of what it leads to.

    Parameters
    ----------
    every
        Take every n-th case only.
    """
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    import golden_cases

    found = {}
    for group in GROUPS:
        for name, case in [one for one in golden_cases.GROUPS[group]() if not one[1].libraries][::every]:
            with tempfile.TemporaryDirectory() as scratch:
                place = Path(scratch)
                case.begin(place)
                digest = hashlib.sha256()
                for path in sorted(place.rglob("*")):
                    digest.update(path.read_bytes() if path.is_file() else b"")
                digest.update(json.dumps(case.go_on(place)).encode())
            found[f"{group}/{name}"] = digest.hexdigest()[:16]
    return found


def digests_of(build: Build, every: int = 1) -> dict[str, str]:
    """Return the digests that a new process prints with this build."""
    if build.emulator:
        return arithmetic(build)
    with tempfile.TemporaryDirectory() as scratch:
        if build.compiler:
            out, objects = Path(scratch) / "modules", Path(scratch) / "objects"
            make = [sys.executable, str(ROOT / "hatch_build.py"), "--out", str(out), "--objects", str(objects)]
            environment = os.environ | {"CC": shlex.join(build.command)}
            subprocess.run([*make, "--", *build.flags], check=True, env=environment, stdout=subprocess.DEVNULL)
            load = f"import driftsurf.native; driftsurf.native.__path__.insert(0, {str(out)!r}); "
        else:
            load = ""
        code = f"{load}from tools import same_bits; same_bits.main(['--digests', '--every={every}'])"
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
    return known | arithmetic(build) if build.compiler else known


def differing(expected: dict[str, str], found: dict[str, str]) -> Iterator[str]:
    """Yield the cases whose digests are not the expected ones."""
    for name in sorted(found):
        if expected.get(name) != found[name]:
            yield name


def main(arguments: list[str] | None = None) -> None:
    """Print the digests, store them, or compare builds; exit with 1 if any differs."""
    parser = argparse.ArgumentParser(prog="python -m tools.same_bits", description=__doc__.splitlines()[0])
    parser.add_argument(
        "builds", nargs="*", metavar="build", help=f"builds to compare (default: all): {', '.join(BUILDS)}"
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every Nth case only")
    parser.add_argument("--digests", action="store_true", help="print the digests of this process")
    parser.add_argument("--write", choices=("all", "arithmetic"), help="store the digests of the installed build")
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.builds if name not in BUILDS]:
        parser.error(f"no build is called {unknown[0]!r}; choices: {', '.join(BUILDS)}")
    warnings.simplefilter("ignore")
    if chosen.digests:
        if os.environ.get(FLUSHING):
            from driftsurf.native.maths import set_flushing

            set_flushing(True)
        print(json.dumps(digests(chosen.every)))
        return
    if chosen.write:
        found = arithmetic(Build(shlex.join(hatch_build.find_compiler() or ())))
        if chosen.write == "all":
            found |= digests()
        else:
            found = json.loads(EXPECTED.read_text()) | found
        EXPECTED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        return
    expected: dict[str, str] = json.loads(EXPECTED.read_text())
    failed = False
    for name in chosen.builds or BUILDS:
        build = BUILDS[name]
        if build.missing:
            print(f"{name}: skipped, this machine has no {build.missing}", flush=True)
            continue
        found = digests_of(build, chosen.every)
        wrong = list(differing(expected, found))
        failed = failed or bool(wrong)
        verdict = f"{len(wrong)} of {len(found)} cases differ: {', '.join(wrong[:5])}" if wrong else "the same bits"
        print(f"{name}: {verdict}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
