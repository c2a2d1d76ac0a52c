"""Fuzzed state files: each is refused or read, without a crash, and without running code or opening files or sockets.

A plain fuzzer mutates saved models and gives them a right checksum, so that the code behind the check is reached. One
in ten is a model whose arrays hold forged numbers; if it can be read, it has to learn a batch, too. With the extra
``atheris`` a second fuzzer is guided by coverage, in a process of its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import random
import re
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.reliability.harness import ROOT, Outcome
from tests.reliability.workload import Workload

from driftsurf import AwareClassifier, DriftSurfClassifier, DriftSurfRegressor, saving
from driftsurf.core.contracts import Pickled
from driftsurf.core.samples import Samples
from driftsurf.core.state import PREFIX, from_bytes, to_bytes
from driftsurf.data.encoding import TableEncoder
from driftsurf.detectors import ADWIN, MDDM
from driftsurf.errors import DriftsurfError
from driftsurf.estimators import DWMClassifier, PairedLearnersClassifier, PERMClassifier
from driftsurf.learners import SoftmaxRegression

FORBIDDEN = (
    "exec",
    "compile",
    "pickle",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "socket",
    "open",
)
MOST_MEMORY = 64 * 2**20
ODD = (1e9, -1e9, 1e300, 7.0, -1.0, 0.5, math.nan, math.inf)
_armed: list[bool] = []
_events: list[str] = []


def _watch(event: str, arguments: Any) -> None:
    if _armed and event.startswith(FORBIDDEN):
        _events.append(event)


def seeds(seed: int) -> list[bytes]:
    """Return small saved models of several kinds, from which the mutations start."""
    found = [to_bytes({}), to_bytes({"a": 1, "b": 0.5, "c": "x", "d": True})]
    found.append(
        to_bytes({"object": "unknown"})
    )  # makes the registry read the entry points, before files are forbidden
    for model in (DriftSurfClassifier(random_state=seed), AwareClassifier(random_state=seed, batch_size=8)):
        for X, y in Workload(steps=3, rows=5, seed=seed).stream.batches(5):
            model.partial_fit(X, y)
        found.append(model.to_bytes())
    detector, rows = ADWIN(), Samples(2)
    detector.update([0, 1, 0, 0] * 20)
    rows.append(np.ones((3, 2)), np.ones(3))
    encoder = TableEncoder().fit({"price": [1.5, None], "city": ["Rome", "Oslo"]})
    found += [saving.dumps(thing) for thing in (detector, MDDM(), rows, encoder)]
    found.append(to_bytes({"a": 1, "b": Pickled("a set", {1})}, trust_pickle=True))
    return found


def models(seed: int) -> list[bytes]:
    """Return saved models that can be loaded by themselves, with rows in their stores and buffers."""
    made: list[Any] = [
        kind(SoftmaxRegression(), random_state=seed, batch_size=8)
        for kind in (DriftSurfClassifier, DWMClassifier, PERMClassifier, PairedLearnersClassifier)
    ]
    chance = np.random.default_rng(seed)
    for model in (*made, values := DriftSurfRegressor(random_state=seed, batch_size=8)):
        model.partial_fit(chance.normal(size=(44, 2)), chance.integers(0, 3, 44))
    return [model.to_bytes() for model in (*made, values)]


def sealed(body: bytes) -> bytes:
    """Append the right checksum."""
    return body + hashlib.sha256(body).digest()


def target(data: bytes) -> str:
    """Load a state and the model in it; return "read" or "refused"."""
    return _ended(_read, data)


def learns(data: bytes) -> str:
    """Load a model and let it learn one batch; return "read" or "refused"."""
    return _ended(_learn, data)


def _ended(what: Callable[[bytes], object], data: bytes) -> str:
    try:
        what(data)
    except DriftsurfError:
        return "refused"
    return "read"


def _read(data: bytes) -> None:
    state = from_bytes(data)
    if "object" in state:
        saving.loads(data)
    else:
        DriftSurfClassifier.from_bytes(data)


def _learn(data: bytes) -> None:
    model: Any = saving.loads(data)
    model.partial_fit(np.eye(2)[[0, 1] * 5], [0, 1] * 5)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Mutate a saved state in one to four places, and append the right checksum."""
    body = bytearray(data[:-32])
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(body)) if chance.random() < 0.5 else chance.randrange(min(len(body), 1_000))
        match chance.randrange(6):
            case 0:
                body[at] ^= 1 << chance.randrange(8)
            case 1:
                body[at] = chance.choice(b'0123456789"[],:{}-.eE\\\x00\xff')
            case 2:
                del body[at : at + chance.randint(1, 8)]
            case 3:
                body[at:at] = chance.choice((b"null", b"1e999", b"NaN", b"[", b"-1", b"9" * 30, b'"', b"\xff" * 8))
            case 4:
                length = chance.randint(1, 40)
                body[at : at + length] = body[(start := chance.randrange(len(body))) : start + length]
            case _:
                numbers = list(re.finditer(rb"\d+", bytes(body[16:2_000])))
                if numbers:
                    one = chance.choice(numbers)
                    new = chance.choice((b"0", b"1", b"2", b"-1", b"255", b"4294967296", b"9223372036854775807"))
                    body[16 + one.start() : 16 + one.end()] = new
        if not body:
            body = bytearray(PREFIX)
    if chance.random() < 0.7 and len(body) >= 16:  # most get the right length of the header
        end = body.rfind(b"]}", 0, 20_000)
        if end > 16:
            body[8:16] = (end + 2 - 16).to_bytes(8, "little")
    return sealed(bytes(body))


def revalued(data: bytes, chance: random.Random) -> bytes:
    """Overwrite one entry, or all, of an array of a saved model with odd numbers; in half of the cases its targets."""
    state = from_bytes(data)
    arrays = [name for name, value in state.items() if isinstance(value, np.ndarray) and value.size]
    name = chance.choice([name for name in arrays if name.endswith(".y")] if chance.random() < 0.5 else arrays)
    array: Any = state[name]
    which = chance.randrange(array.size) if chance.random() < 0.5 else slice(None)
    array.flat[which] = chance.choice(ODD if array.dtype.kind == "f" else (-1, 7, 2**31 - 1))
    return to_bytes(state)


def loader(scale: float, seed: int, count: int | None = None) -> Outcome:
    """Load mutated states with a right checksum: no crash, no forbidden event, no memory."""
    outcome = Outcome("fuzzed state files", seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python opens source files to show a warning
        _feed(outcome, seed, round(400_000 * scale) if count is None else count)
    return outcome


def _feed(outcome: Outcome, seed: int, count: int) -> None:
    chance = random.Random(seed)
    pool, whole = seeds(seed), models(seed)
    for data in pool:
        target(data)
    for data in whole:
        learns(data)
    sys.addaudithook(_watch)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for trial in range(count):
        learning = trial % 10 == 9
        data = revalued(chance.choice(whole), chance) if learning else mutate(chance.choice(pool), chance)
        del _events[:]
        _armed.append(True)
        try:
            ended = learns(data) if learning else target(data)
        except Exception as error:  # any error but one of ours is a finding
            ended = f"{type(error).__name__}: {error}"
        _armed.clear()
        outcome.count(ended if ended in ("read", "refused") else "crashed")
        good = ended in ("read", "refused") and not _events
        outcome.check(good, {"trial": trial, "ended": ended, "events": _events[:5], "data": data.hex()})
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    outcome.figures["MiB of memory grown"] = grown / 2**20
    outcome.check(grown < MOST_MEMORY, {"grown": grown})


def guided(scale: float, seed: int) -> Outcome:
    """Load states that a coverage-guided fuzzer makes, for ten minutes."""
    outcome = Outcome("fuzzed state files, guided by coverage", seed)
    if importlib.util.find_spec("atheris") is None:
        outcome.skipped = "atheris is not installed: pip install atheris"
        return outcome
    with tempfile.TemporaryDirectory() as place:
        for number, data in enumerate(seeds(seed)):
            (Path(place) / str(number)).write_bytes(data[:-32])
        command = [
            sys.executable,
            "-m",
            "tests.reliability.fuzz",
            f"-max_total_time={round(600 * scale)}",
            f"-seed={seed + 1}",
        ]
        command += ["-rss_limit_mb=2048", "-max_len=8192", "-timeout=20", f"-artifact_prefix={place}/found-", place]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        done = re.search(r"Done (\d+) runs in (\d+) second", ran.stderr)
        covered = re.findall(r"cov: (\d+)", ran.stderr)
        outcome.figures = {
            "executions": int(done[1]) if done else 0,
            "covered places": int(covered[-1]) if covered else 0,
        }
        found = {file.name: file.read_bytes().hex() for file in Path(place).glob("found-*")}
        outcome.check(ran.returncode == 0, {"stderr": ran.stderr[-3_000:], "found": found})
        outcome.tried = int(done[1]) if done else outcome.tried
    return outcome


def _main() -> None:
    import atheris

    warnings.simplefilter("ignore")  # Python opens source files to show a warning
    for data in seeds(0):
        target(data)
    for name in (
        "driftsurf.core.state",
        "driftsurf.core.samples",
        "driftsurf.core.targets",
        "driftsurf.core.input",
        "driftsurf.data.encoding",
    ):
        module = sys.modules[name]
        for key, value in vars(module).items():
            if getattr(value, "__module__", "") == name and hasattr(value, "__code__"):
                setattr(module, key, atheris.instrument_func(value))
    sys.addaudithook(_watch)

    def one(data: bytes) -> None:
        _armed.append(True)
        try:
            target(sealed(data))
            target(data)
        finally:
            _armed.clear()
        if _events:
            raise RuntimeError(f"forbidden: {_events}")

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    _main()
