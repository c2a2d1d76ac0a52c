"""Compile the native core: the C files and Cython modules of ``src/driftsurf/native``.

hatchling calls ``NativeBuildHook`` for every wheel and editable install. In a source tree, ``python hatch_build.py``
compiles what has changed since the last build. Only the compiler named by ``CC``, or cc, gcc or clang, is needed; where
there is none, the clang of the package ``ziglang`` compiles, which pip installs for the build.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # `python hatch_build.py` needs no hatchling
    BuildHookInterface = object

ROOT = Path(__file__).resolve().parent
NATIVE = ROOT / "src" / "driftsurf" / "native"
OBJECTS = ROOT / "build" / "native"
STABLE_ABI = "0x030b0000"
"""Oldest Python whose stable ABI the modules use: 3.11."""
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
"""Whether this Python has no global interpreter lock, for which there is no stable ABI before Python 3.15."""
FLAGS = [
    *("-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections"),
    *("-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno"),
]
"""No flag may let a compiler change the order of floating-point operations: results have the same bits everywhere."""
GENERATED_FLAGS = ["-Wno-unused-function", "-Wno-unreachable-code", "-Wno-unknown-warning-option"]
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
    "freethreading_compatible": True,
}
NO_COMPILER = (
    "driftsurf compiles its native core and found no C compiler. Install one (Debian: apt-get install gcc; macOS: "
    "xcode-select --install), or install the one from PyPI: pip install ziglang"
)
NO_HEADERS = (
    "driftsurf compiles its native core and found no Python.h in {folder}. Install the headers of this Python "
    "(Debian: apt-get install python3-dev)"
)


def find_compiler() -> list[str] | None:
    """Return the command of the C compiler, or None if there is none."""
    if chosen := os.environ.get("CC"):
        return shlex.split(chosen)
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec("ziglang"):
        # zig compiles for the processor it runs on, and checks undefined behaviour, unless it is told not to.
        return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline", "-fno-sanitize=undefined"]
    return None


def sources() -> list[Path]:
    """Return every file that the native core is compiled from."""
    kinds = ("*.pyx", "*.pxd", "c/*.c", "c/*.h")
    return sorted(path for kind in kinds for path in NATIVE.glob(kind))


def source_digest(files: Iterable[Path]) -> str:
    """Return a digest of the sources, which the modules contain, so that a stale core is noticed."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class NativeBuild:
    """Compile the C files once and link them into each Cython module.

    Parameters
    ----------
    compiler
        Command of the C compiler.
    flags
        Further flags for compiling and linking, such as those of sanitizers.
    objects
        Folder for object files and generated C.
    out
        Folder for the modules.
    """

    def __init__(self, compiler: Sequence[str], flags: Sequence[str], objects: Path, out: Path) -> None:
        self.compiler = list(compiler)
        self.flags = list(flags)
        self.objects = objects
        self.out = out
        self.digest = source_digest(sources())
        self.suffix = f".{'abi3' if not FREE_THREADED else sysconfig.get_config_var('SOABI')}.so"
        if os.name == "nt":
            self.suffix = ".pyd"

    def run(self) -> list[Path]:
        """Compile what has changed; return the modules."""
        self.objects.mkdir(parents=True, exist_ok=True)
        modules = sorted(NATIVE.glob("*.pyx"))
        files = [*sorted((NATIVE / "c").glob("*.c")), *modules]
        # Two threads: the compilers are processes of their own.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            compiled = dict(zip(files, pool.map(self._compiled, files), strict=True))
            arithmetic = [compiled[path] for path in files if path.suffix == ".c"]
            return list(pool.map(lambda path: self._linked(path, [compiled[path], *arithmetic]), modules))

    def _compiled(self, path: Path) -> Path:
        """Return the object file of a C file or a Cython module."""
        source, extra = path, []
        if path.suffix == ".pyx":
            source = self._translated(path)
            extra = [*GENERATED_FLAGS, "-I" + sysconfig.get_path("include"), "-I" + str(NATIVE / "c")]
            extra.append(f'-DDRIFTSURF_SOURCES="{self.digest}"')
            extra += [] if FREE_THREADED else [f"-DPy_LIMITED_API={STABLE_ABI}"]
        target = self.objects / f"{path.stem}_{path.suffix[1:]}.o"
        command = [*self.compiler, *FLAGS, *self.flags, *extra, "-c", str(source), "-o", str(target)]
        headers = [*(NATIVE / "c").glob("*.h"), *(NATIVE / "c").glob("*.inc")]
        self._run_if_changed(target, [source, *headers], command)
        return target

    def _translated(self, path: Path) -> Path:
        """Return the C file that Cython generates from a module."""
        target = self.objects / f"{path.stem}.c"
        settings = [f"--directive={name}={value}" for name, value in DIRECTIVES.items()]
        command = [sys.executable, "-m", "cython", "--fast-fail", *settings, str(path), "-o", str(target)]
        self._run_if_changed(target, [path, *NATIVE.glob("*.pxd")], command)
        return target

    def _linked(self, path: Path, objects: list[Path]) -> Path:
        """Return the module linked from these object files."""
        target = self.out / f"{path.stem}{self.suffix}"
        if sys.platform == "darwin":
            shared = ["-bundle", "-undefined", "dynamic_lookup", "-Wl,-dead_strip"]
        else:
            shared = ["-shared", "-Wl,--gc-sections"]
        command = [*self.compiler, *self.flags, *shared, *map(str, objects), "-o", str(target)]
        self._run_if_changed(target, objects, command)
        return target

    def _run_if_changed(self, target: Path, inputs: Iterable[Path], command: list[str]) -> None:
        """Run a command that makes ``target``, unless neither the command nor the content of its inputs has changed."""
        digest = hashlib.sha256(json.dumps(command).encode())
        for path in sorted(inputs):
            digest.update(path.read_bytes())
        stamp = self.objects / f"{target.name}.stamp"
        if target.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest():
            return
        stamp.unlink(missing_ok=True)
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
        stamp.write_text(digest.hexdigest())


def build(out: Path = NATIVE, flags: Sequence[str] = (), objects: Path = OBJECTS) -> list[Path]:
    """Compile the native core into a folder; return its modules."""
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        raise SystemExit(NO_HEADERS.format(folder=headers))
    compiler = find_compiler()
    if compiler is None:
        raise SystemExit(NO_COMPILER)
    return NativeBuild(compiler, flags, objects, out).run()


class NativeBuildHook(BuildHookInterface):  # type: ignore[misc, valid-type, unused-ignore]
    """hatchling's build hook: compile the core before the package is packed or linked."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return further packages that the build needs."""
        return [] if self.target_name != "wheel" or find_compiler() else ["ziglang"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the core and add its modules to the wheel."""
        if self.target_name != "wheel":
            return
        modules = build()
        build_data["pure_python"] = False
        if FREE_THREADED:
            build_data["infer_tag"] = True
        else:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"cp311-abi3-{platform}"
        if version != "editable":
            build_data["force_include"].update({str(path): f"driftsurf/native/{path.name}" for path in modules})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=NATIVE, help="folder for the modules")
    parser.add_argument("--objects", type=Path, default=OBJECTS, help="folder for object files")
    parser.add_argument("flags", nargs="*", help="further flags of the compiler, after --")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for module in build(chosen.out, chosen.flags, chosen.objects):
        print(module)
