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
import platform
import runpy
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

    HOOK: Any = BuildHookInterface
except ImportError:  # `python hatch_build.py` needs no hatchling
    HOOK = object

ROOT = Path(__file__).resolve().parent
NATIVE = ROOT / "src" / "driftsurf" / "native"
OBJECTS = ROOT / "build" / "native"
GENERATED = OBJECTS / "cython"
STABLE_ABI = "0x030b0000"
"""Oldest Python whose stable ABI the modules use: 3.11."""
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
"""Whether this Python has no global interpreter lock, for which there is no stable ABI before Python 3.15."""
FLAGS = [
    *("-std=gnu11", "-O3", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections"),
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
TARGETS = {
    "x86_64-linux-gnu.2.17": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "aarch64-linux-gnu.2.17": "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "x86_64-linux-musl": "musllinux_1_1_x86_64",
    "aarch64-linux-musl": "musllinux_1_1_aarch64",
    "x86_64-macos.11.0": "macosx_11_0_x86_64",
    "aarch64-macos.11.0": "macosx_11_0_arm64",
}
"""Machines that ``DRIFTSURF_TARGET`` may name to zig's compiler, and the platform tags of wheels for them."""
NO_COMPILER = (
    "driftsurf compiles its native core and found no C compiler. Install one (Debian: apt-get install gcc libc6-dev; "
    "macOS: xcode-select --install), or install the one from PyPI: pip install ziglang"
)
NO_HEADERS = (
    "driftsurf compiles its native core and found no Python.h in {folder}. Install the headers of this Python "
    "(Debian: apt-get install python3-dev)"
)
NO_CYTHON = "driftsurf compiles its native core and found no Cython. Install it: pip install 'cython>=3.1'"


def zig_compiler(target: str = "") -> list[str]:
    """Return the command of zig's C compiler, for this machine or for a target."""
    # zig compiles for the processor it runs on, and checks undefined behaviour, unless it is told not to.
    # Its information for debuggers would take ten times the space of the code.
    command = [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline", "-fno-sanitize=undefined", "-g0", "-s"]
    return [*command, "-target", target] if target else command


def find_compiler() -> list[str] | None:
    """Return the command of the C compiler, or None if there is none."""
    if chosen := os.environ.get("CC"):
        command = shlex.split(chosen)
        if shutil.which(command[0]) is None:
            raise SystemExit(f"driftsurf compiles its native core with CC={chosen}, and found no {command[0]}")
        return command
    for name in ("cc", "gcc", "clang"):
        # On macOS without its developer tools, cc exists and does nothing.
        if (found := shutil.which(name)) and not subprocess.run([found, "--version"], capture_output=True).returncode:
            return [found]
    return zig_compiler() if importlib.util.find_spec("ziglang") else None


class NativeBuild:
    """Compile the C files once and link them into each Cython module.

    Parameters
    ----------
    compiler
        Command of the C compiler.
    flags
        Further flags for compiling and linking, such as those of sanitizers.
    objects
        Folder for generated C, object files and modules.
    system
        Operating system that the modules are for, as in ``sys.platform``.
    """

    def __init__(
        self, compiler: Sequence[str], flags: Sequence[str], objects: Path, system: str = sys.platform
    ) -> None:
        self.compiler = list(compiler)
        self.flags = list(flags)
        self.objects = objects
        self.system = system
        self.headers = sorted({sysconfig.get_path("include"), sysconfig.get_path("platinclude")})
        self._digests: dict[Path, str] = {}

    def run(self) -> list[Path]:
        """Compile what has changed; return the modules."""
        self.objects.mkdir(parents=True, exist_ok=True)
        GENERATED.mkdir(parents=True, exist_ok=True)
        modules = sorted(NATIVE.glob("*.pyx"), key=lambda path: -path.stat().st_size)
        files = [*modules, *sorted((NATIVE / "c").glob("*.c"))]
        # The compilers are processes of their own.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            compiled = dict(zip(files, pool.map(self._compiled, files), strict=True))
            arithmetic = [compiled[path] for path in files if path.suffix == ".c"]
            return list(pool.map(lambda path: self._linked(path, [compiled[path], *arithmetic]), modules))

    def _compiled(self, path: Path) -> Path:
        """Return the object file of a C file or a Cython module."""
        source, extra = path, []
        if path.suffix == ".pyx":
            source = self._translated(path)
            extra = [*GENERATED_FLAGS, *(f"-I{folder}" for folder in self.headers), f"-I{NATIVE / 'c'}"]
            extra += [] if FREE_THREADED else [f"-DPy_LIMITED_API={STABLE_ABI}"]
        target = self.objects / f"{path.stem}_{path.suffix[1:]}.o"
        extra += [] if self.system == "win32" else ["-fPIC"]
        command = [*self.compiler, *FLAGS, *self.flags, *extra, "-c", str(source), "-o", str(target)]
        headers = [*(NATIVE / "c").glob("*.h"), *(NATIVE / "c").glob("*.inc")]
        self._run_if_changed(target, [source, *headers], command)
        return target

    def _translated(self, path: Path) -> Path:
        """Return the C file that Cython generates from a module; it is the same for every compiler."""
        target = GENERATED / f"{path.stem}.c"
        settings = [f"--directive={name}={value}" for name, value in DIRECTIVES.items()]
        command = ["-m", "cython", "--fast-fail", *settings, str(path), "-o", str(target)]
        self._run_if_changed(target, [path, *NATIVE.glob("*.pxd")], [sys.executable, *command])
        return target

    def _linked(self, path: Path, objects: list[Path]) -> Path:
        """Return the module linked from these object files."""
        if self.system == "win32":
            suffix, python = ".pyd", f"-lpython3{sys.version_info.minor}t" if FREE_THREADED else "-lpython3"
            shared = ["-shared", f"-L{Path(sys.base_prefix) / 'libs'}", python]
        elif self.system == "darwin":
            suffix, shared = ".so", ["-shared", "-undefined", "dynamic_lookup", "-Wl,-dead_strip"]
        else:
            suffix, shared = ".so", ["-shared", "-Wl,--gc-sections"]
        if FREE_THREADED:
            suffix = sysconfig.get_config_var("EXT_SUFFIX")
        elif suffix == ".so":
            suffix = ".abi3.so"
        target = self.objects / f"{path.stem}{suffix}"
        command = [*self.compiler, *self.flags, *map(str, objects), *shared, "-o", str(target)]
        self._run_if_changed(target, objects, command)
        return target

    def _run_if_changed(self, target: Path, inputs: Iterable[Path], command: list[str]) -> None:
        """Run a command that makes ``target``, unless neither the command nor the content of its inputs has changed."""
        # The same tools run in several environments.
        digest = hashlib.sha256(json.dumps([word for word in command if word != sys.executable]).encode())
        for path in sorted(inputs):
            digest.update(self._digest(path))
        stamp = target.with_name(f"{target.name}.stamp")
        # What is made has the digest of what it is made from.
        self._digests[target] = found = digest.hexdigest()
        if target.exists() and stamp.exists() and stamp.read_text() == found:
            return
        stamp.unlink(missing_ok=True)
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
        stamp.write_text(found)

    def _digest(self, path: Path) -> bytes:
        """Return the digest of a file, which is read once."""
        if path not in self._digests:
            self._digests[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return self._digests[path].encode()


def compile_core(flags: Sequence[str] = (), objects: Path | None = None, target: str = "") -> list[Path]:
    """Compile what has changed since the last call, and return the modules, which lie in the folder of objects.

    Parameters
    ----------
    flags
        Further flags for compiling and linking.
    objects
        Folder of object files, for each combination of compiler and flags its own.
    target
        What the modules are for, if not this machine: one of ``TARGETS``.
    """
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        raise SystemExit(NO_HEADERS.format(folder=include))
    if importlib.util.find_spec("Cython") is None:
        raise SystemExit(NO_CYTHON)
    compiler = zig_compiler(target) if target else find_compiler()
    if compiler is None:
        raise SystemExit(NO_COMPILER)
    if objects is None:
        objects = OBJECTS / (target or f"{sys.implementation.cache_tag}{'t' * FREE_THREADED}")
    system = {"macos": "darwin", "linux": "linux"}[target.split("-")[1].split(".")[0]] if target else sys.platform
    return NativeBuild(compiler, flags, objects, system).run()


def compile_into(out: Path, flags: Sequence[str] = (), objects: Path | None = None) -> None:
    """Compile the core, and copy its modules into a folder with a record of their sources.

    A module that a running process has loaded is replaced, not overwritten, which would end that process.
    """
    sources = runpy.run_path(str(NATIVE / "sources.py"))
    text = sources["digest"](str(NATIVE)) + "\n" + sources["listing"](str(NATIVE))
    modules = compile_core(flags, objects)
    out.mkdir(parents=True, exist_ok=True)
    record = out / sources["RECORD"]
    for module in modules:
        place, beside = out / module.name, out / f"{module.name}.new"
        if not place.exists() or place.read_bytes() != module.read_bytes():
            record.unlink(missing_ok=True)
            shutil.copyfile(module, beside)
            beside.replace(place)
    if not record.exists() or record.read_text() != text:
        record.write_text(text)


def platform_tag(target: str) -> str:
    """Return the platform tag of a wheel for a target, or for this machine."""
    if target:
        return TARGETS[target]
    if sys.platform == "darwin":
        # The modules are for one kind of processor, also where Python itself is for two.
        machine, oldest = platform.machine(), sysconfig.get_platform().split("-")[1].replace(".", "_")
        return f"macosx_{'11_0' if machine == 'arm64' and oldest.startswith('10_') else oldest}_{machine}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


class NativeBuildHook(HOOK):  # type: ignore[misc]
    """hatchling's build hook: compile the core before the package is packed or linked."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return further packages that the build needs."""
        return [] if self.target_name != "wheel" or find_compiler() else ["ziglang"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the core and add its modules to the wheel, or put them beside their sources."""
        if self.target_name != "wheel":
            return
        target = os.environ.get("DRIFTSURF_TARGET", "")
        build_data["pure_python"] = False
        if FREE_THREADED:
            build_data["infer_tag"] = True
        else:
            build_data["tag"] = f"cp311-abi3-{platform_tag(target)}"
        if version == "editable":
            compile_into(NATIVE)
        else:
            modules = compile_core(target=target)
            sources = runpy.run_path(str(NATIVE / "sources.py"))
            record = OBJECTS / sources["RECORD"]
            record.write_text(sources["digest"](str(NATIVE)) + "\n")
            packed = [*modules, record]
            build_data["force_include"].update({str(path): f"driftsurf/native/{path.name}" for path in packed})


def main() -> None:
    """Compile the core beside its sources, or into another folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=NATIVE, help="folder for the modules")
    parser.add_argument("--objects", type=Path, help="folder for object files")
    parser.add_argument("--find-compiler", action="store_true", help="only print the command of the C compiler")
    parser.add_argument("flags", nargs="*", help="further flags of the compiler, after --")
    chosen = parser.parse_args()
    if chosen.find_compiler:
        if (compiler := find_compiler()) is None:
            raise SystemExit(NO_COMPILER)
        print(shlex.join(compiler))
        return
    compile_into(chosen.out, chosen.flags, chosen.objects)


if __name__ == "__main__":
    main()
