"""Hostile inputs: every command ends with success or one line that names the fault, within a gigabyte and a minute."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.reliability.harness import Outcome

GIB = 2**30
MEMORY = GIB
"""Bytes of resident memory that a command may take. (Address space is no measure: threads and allocators reserve more
than they use, about 1.8 GB for a run of a small file.)"""
SECONDS = 60.0
"""A command that has not ended by then fails; the machine may be busy, so that the time of the processor counts."""
LATE = 60.0
"""Further seconds for a process that waits, such as for a pipe, not counting those in which the machine was busy."""
ROWS = b"a,b,sold\n" + b"".join(b"%d,%d,%s\n" % (i % 7, i % 5, b"yes" if i % 7 > 3 else b"no") for i in range(1_500))


@dataclass(frozen=True)
class Case:
    """A hostile input: how it is written below a folder for a size in bytes, and what a command is told about it."""

    write: Callable[[Path, int], str]
    """Writes the input and returns its location."""
    options: tuple[str, ...] = ("--label", "sold")
    success: bool = False
    """Whether the commands have to succeed."""


def _file(name: str, parts: Callable[[int], Iterator[bytes]]) -> Callable[[Path, int], str]:
    """Return a function that writes a file, compressed if its name says so."""

    def write(folder: Path, size: int) -> str:
        path = folder / name
        if name.endswith(".zst"):
            import pyarrow as pa

            with pa.CompressedOutputStream(str(path), "zstd") as file:
                for part in parts(size):
                    file.write(part)
            return str(path)
        packed = name.endswith(".gz")
        with gzip.open(path, "wb", 6) if packed else path.open("wb") as file:
            for part in parts(size if packed else size // 8):  # disks are slow
                file.write(part)
        return str(path)

    return write


def _repeated(part: bytes, *, head: bytes = b"", tail: bytes = b"") -> Callable[[int], Iterator[bytes]]:
    block = part * max(1, 2**20 // len(part))

    def parts(size: int) -> Iterator[bytes]:
        yield head
        for _ in range(max(1, size // len(block))):
            yield block
        yield tail

    return parts


def _wide(size: int) -> Iterator[bytes]:
    """120 rows of 50,000 columns, or fewer for a small size."""
    width = min(50_000, max(500, size // 1000))
    yield b",".join(b"c%d" % i for i in range(width)) + b",sold\n"
    for row in range(120):
        cells = b",".join(b"%d" % ((row * 7 + i) % 10) for i in range(width))
        yield cells + (b",yes\n" if row % 2 else b",no\n")


def _pipe(folder: Path, size: int) -> str:
    path = folder / "silent.csv"
    os.mkfifo(path)
    return str(path)


_SKIP = ("--label", "sold", "--on-bad-row", "skip")
_CELL = b"x" * 10_000_000
CASES: dict[str, Case] = {
    "blank lines": Case(_file("blank.csv", _repeated(b"\n"))),
    "blank lines, gzip": Case(_file("blank.csv.gz", _repeated(b"\n"))),
    "blank lines after the header": Case(_file("head.csv", _repeated(b"\n", head=b"a,sold\n"))),
    "blank lines after rows": Case(_file("rows.csv", _repeated(b"\n", head=ROWS)), success=True),
    "carriage returns, gzip": Case(_file("returns.csv.gz", _repeated(b"\r"))),
    "comment lines, gzip": Case(_file("comments.csv.gz", _repeated(b"#\n"))),
    "zeros, gzip": Case(_file("zeros.csv.gz", _repeated(b"\0"))),
    "zeros, zstd": Case(_file("zeros.csv.zst", _repeated(b"\0"))),
    "rows, gzip": Case(
        _file("long.csv.gz", _repeated(b"1,2,yes\n2,3,no\n", head=b"a,b,sold\n")),
        ("--label", "sold", "--rows", "3000"),
        success=True,
    ),
    "rows that cannot be read, gzip": Case(_file("bad.csv.gz", _repeated(b"1\n", head=ROWS)), _SKIP),
    "an endless line": Case(_file("endless.csv", _repeated(b"x", head=ROWS))),
    "an endless line, skipped": Case(_file("endless.csv", _repeated(b"x", head=ROWS)), _SKIP),
    "an endless cell in quotes": Case(_file("quote.csv", _repeated(b'x","y', head=b'a,sold\n"'))),
    "ten-megabyte cells": Case(_file("cells.csv", _repeated(_CELL + b",1,no\n", head=ROWS, tail=ROWS[9:]))),
    "ten-megabyte cells, skipped": Case(
        _file("cells.csv", _repeated(_CELL + b",1,no\n", head=ROWS, tail=ROWS[9:])), _SKIP, success=True
    ),
    "ten-megabyte cells first, skipped": Case(
        _file("first.csv", lambda size: iter([b"a,b,sold\n", _CELL + b",1,no\n", ROWS[9:]])), _SKIP, success=True
    ),
    "ten-megabyte cells, allowed": Case(
        _file("allowed.csv", lambda size: iter([b"a,b,sold\n", _CELL + b",1,no\n", *[b"q,1,yes\nw,2,no\n"] * 700])),
        ("--label", "sold", "--max-row-bytes", "20000000"),
        success=True,
    ),
    "120 wide rows": Case(_file("wide.csv", _wide), success=True),
    "a wide header of one name": Case(_file("names.csv", lambda size: iter([b"a," * 50_000 + b"sold\n", ROWS[9:]]))),
    "deep JSON lines": Case(_file("deep.jsonl", _repeated(b"[", head=b'{"a": 1, "sold": 2}\n{"a": '))),
    "deep JSON": Case(_file("deep.json", _repeated(b'{"a":', head=b'[{"a": 1, "sold": 2},'))),
    "many short elements": Case(_file("commas.json", _repeated(b",", head=b'[{"a": 1, "sold": 2}'))),
    "an endless JSON object, skipped": Case(
        _file("object.json", _repeated(b"x", head=b'[{"a": 1, "sold": 2}, {"a": "')), _SKIP
    ),
    "blank lines, ARFF": Case(_file("blank.arff", _repeated(b"\n"))),
    "comment lines, ARFF": Case(_file("comments.arff.gz", _repeated(b"%\n"))),
    "blanks in a row, LIBSVM": Case(_file("blanks.svm", lambda size: iter([b"1" + b" " * 4_000_000 + b"x\n"]))),
    "a large index, LIBSVM": Case(
        _file("index.svm", lambda size: iter([b"1 2000000000:1\n0 5:2\n" * 700])), ("--label", "label")
    ),
    "/dev/zero": Case(lambda folder, size: "/dev/zero", (*_SKIP, "--format", "csv")),
    "a pipe nobody writes to": Case(_pipe),
    "a question of blanks": Case(_file("sold.csv", lambda size: iter([ROWS])), ("--label", "a" + " " * 50_000 + "!")),
    "a question of blanks and signs": Case(
        _file("sold.csv", lambda size: iter([ROWS])), ("--label", "q" + " " * 50_000 + "> 3")
    ),
}
"""All inputs by name."""
COMMANDS = ("run", "keyed", "compare", "predict")


def _command(name: str, location: str, options: tuple[str, ...], model: Path, out: str) -> list[str]:
    """Return a command line that reads an input."""
    if name == "predict":
        return ["predict", str(model), location, "--out", f"{out}.csv", *options[2:]]
    if name == "compare":
        return ["compare", location, *options, "--models", "majority,persistence", "--jobs", "1", "--out", out]
    if name == "keyed":
        # Keyed runs always skip bad rows, and refuse the option.
        at = options.index("--on-bad-row") if "--on-bad-row" in options else len(options)
        own = options[:at] + options[at + 2 :]
        return ["run", location, *own, "--key", "b", "--sequence", "a", "--out", out]
    return ["run", location, *options, "--batch-size", "100", "--out", out]


@dataclass
class Ended:
    """How a command ended."""

    code: int
    output: str
    peak: int
    """Bytes of resident memory."""
    seconds: float
    """Time of the processor."""

    def good(self, *, success: bool) -> bool:
        """Whether it succeeded, or failed with a message, within its bounds."""
        codes = (0,) if success else (0, 1, 2)
        told = self.code == 0 or "Error: " in self.output
        return self.code in codes and told and "Traceback" not in self.output and self.peak <= MEMORY


def watched(command: list[str], *, patience: float = SECONDS) -> Ended:
    """Run ``driftsurf`` in a process of its own, which is killed beyond a gigabyte or the time."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "driftsurf", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output: list[bytes] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda pipe: output.append(pipe.read()), args=(process.stdout,))
    reader.start()
    peak = 0
    starved = 0.0
    while True:
        found, status, usage = os.wait4(process.pid, os.WNOHANG)
        if found:
            break
        peak = max(peak, _peak(process.pid))
        starved = max(starved, _starved(process.pid))
        waited = time.monotonic() - begin - starved
        if peak > MEMORY or _processor(process.pid) > patience or waited > LATE + 4 * patience:
            process.send_signal(signal.SIGKILL)
        time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(status)
    reader.join()
    process.stdout.close()
    text = b"".join(output).decode(errors="replace")
    return Ended(process.returncode, text, peak, usage.ru_utime + usage.ru_stime)


def _peak(process: int) -> int:
    """Return the most memory that a process has held so far.

    Not ``ru_maxrss``, which begins with the memory of the process that started it.
    """
    try:
        status = Path(f"/proc/{process}/status").read_text()
        return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)
    except OSError:
        return 0


def _starved(process: int) -> float:
    """Return the seconds that a process was ready to run while others had the processor; 0 if nobody counts them."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _processor(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


def hostile(scale: float, seed: int, *, size: int | None = None, names: tuple[str, ...] = ()) -> Outcome:
    """Give every hostile input to every command that reads files."""
    outcome = Outcome("hostile inputs", seed)
    bytes_of_input = int(2 * GIB * scale) if size is None else size
    peak, slowest = 0, 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.csv").write_bytes(ROWS)
        trained = ["run", str(folder / "model.csv"), "--label", "sold", "--out", str(folder / "model")]
        outcome.check(watched(trained).good(success=True), {"case": "the model"})
        for case in names or CASES:
            one = CASES[case]
            place = folder / "case"
            place.mkdir()
            location = one.write(place, bytes_of_input)
            for command in COMMANDS:
                ended = watched(_command(command, location, one.options, folder / "model", str(place / command)))
                success = one.success and command == "run"
                case_of = {"case": case, "command": command, "code": ended.code, "peak": ended.peak}
                outcome.check(
                    ended.good(success=success),
                    case_of | {"seconds": ended.seconds, "output": ended.output[-3000:]},
                )
                peak, slowest = max(peak, ended.peak), max(slowest, ended.seconds)
            shutil.rmtree(place)
    outcome.figures |= {"bytes of input": bytes_of_input, "peak MB": peak // 10**6, "slowest s": slowest}
    return outcome
