"""Damaged state files and checkpoints: flipped bits, and truncated, extended, swapped, stale or foreign files."""

from __future__ import annotations

import io
import pickle
import random
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
from tests.reliability.faults import fast_folder
from tests.reliability.harness import Outcome
from tests.reliability.power import Inode, MemoryDisk
from tests.reliability.workload import Workload, state_digest

from driftsurf import DriftSurfClassifier
from driftsurf.core.disk import using
from driftsurf.core.state import PREFIX, from_bytes, to_bytes
from driftsurf.errors import StateError, StateWarning
from driftsurf.runs.checkpoint import CheckpointFolder


def _model_file(seed: int, most: int) -> bytes:
    """Return a saved model of at most ``most`` bytes."""
    model = DriftSurfClassifier(random_state=seed, max_rows=None)
    data = b""
    for X, y in Workload(steps=200, rows=20, seed=seed).stream.batches(20):
        model.partial_fit(X, y)
        grown = model.to_bytes()
        if len(grown) > most:
            return data
        data = grown
    return data


def bit_flips(scale: float, seed: int, count: int | None = None) -> Outcome:
    """Flip every bit of a saved model; the damage is found, and the backup is used with a warning that names it."""
    outcome = Outcome("single-bit flips of a state file", seed)
    data = _model_file(seed, 65_536 if scale >= 1 else 16_384)
    bits = 8 * len(data)
    wanted = bits if count is None and scale >= 1 else min(bits, count or round(524_288 * scale))
    places = range(bits) if wanted == bits else random.Random(seed).sample(range(bits), wanted)
    damaged = bytearray(data)
    for bit in places:
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            from_bytes(damaged)
            good = False
        except StateError:
            good = True
        damaged[bit // 8] ^= 1 << bit % 8
        outcome.check(good, {"bit": bit})
    outcome.figures = {"bytes": len(data)}
    path = Path("/models/model.state")
    for bit in random.Random(seed).sample(range(bits), min(wanted, 500)):
        disk = MemoryDisk()
        damaged[bit // 8] ^= 1 << bit % 8
        disk.inodes = {path: Inode(bytes(damaged)), path.with_name("model.state.previous"): Inode(data)}
        damaged[bit // 8] ^= 1 << bit % 8
        with using(disk), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            used = DriftSurfClassifier.load(path).to_bytes() == data
        named = any(issubclass(w.category, StateWarning) and "previous" in str(w.message) for w in warned)
        outcome.count("backup used with a warning", used and named)
        outcome.check(used and named, {"bit": bit, "used": used, "named": named})
    return outcome


def checkpoint_flips(scale: float, seed: int, count: int | None = None) -> Outcome:
    """Flip bits in a folder of checkpoints; the previous checkpoint is used with a warning, or all are refused."""
    outcome = Outcome("single-bit flips of a checkpoint", seed)
    work, path, disk = Workload(seed=seed), Path("/run"), MemoryDisk()
    with using(disk):
        work.finish(path)
        states = {
            state_digest(found.state): found.number for found in map(CheckpointFolder(path).load, _heads(path)) if found
        }
    newest = max(states.values())
    chance = random.Random(seed)
    names = sorted(disk.inodes)
    sizes = [len(disk.inodes[name].content()) for name in names]
    wanted = round(20_000 * scale) if count is None else count
    for name in chance.choices(names, sizes, k=wanted):
        content = bytearray(disk.inodes[name].content())
        bit = chance.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        broken = MemoryDisk()
        broken.inodes, broken.folders = dict(disk.inodes) | {name: Inode(bytes(content))}, disk.folders
        got, warned = _load(broken, path)
        number = states.get(got, -1)
        needed = name.name.startswith(("head", "segment")) or number != newest
        good = got == "refused" or (number == newest and not warned) or (number > 0 and warned)
        if name.name == f"head-{newest:09d}.state":
            good = number == newest - 1 and warned
        outcome.count("previous used" if warned else "refused" if got == "refused" else "not needed", needed)
        outcome.check(good, {"file": name.name, "bit": bit, "got": got, "warned": warned})
    return outcome


def _heads(path: Path) -> list[int]:
    return CheckpointFolder(path).generations()


def _load(disk: MemoryDisk, path: Path) -> tuple[str, bool]:
    with using(disk), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = CheckpointFolder(path).load()
        except StateError:
            return "refused", False
    assert found is not None
    return state_digest(found.state), any(issubclass(w.category, StateWarning) for w in warned)


FOREIGN = {
    "nothing": b"",
    "zeros": bytes(5_000),
    "text": b"step,model,error\n" * 100,
    "pickle": pickle.dumps({"weights": [1.0] * 100}),
    "PNG": b"\x89PNG\r\n\x1a\n" + bytes(500),
    "gzip": b"\x1f\x8b\x08" + bytes(500),
    "zip": b"PK\x03\x04" + bytes(500),
    "ELF": b"\x7fELF" + bytes(500),
    "only the magic": PREFIX,
    "a state of another kind": to_bytes({"kind": "something else", "number": 1}),
    "an empty state": to_bytes({}),
}


def files(scale: float, seed: int, count: int | None = None) -> Outcome:
    """Truncate files at every length, extend and swap them, or use those of another run: each is refused."""
    outcome = Outcome("truncated, extended, swapped, stale, foreign", seed)
    data = _model_file(seed, 16_384)
    step = max(1, round(len(data) / (count or len(data))))
    for length in range(0, len(data), step):
        outcome.check(_refused(data[:length]), {"cut to": length})
        outcome.count("truncations")
    chance = random.Random(seed)
    for _ in range(round(2_000 * scale) if count is None else count):
        more = chance.randbytes(chance.randint(1, 100))
        outcome.check(_refused(data + more), {"extended by": more.hex()})
        outcome.count("extensions")
    buffer = io.BytesIO()
    np.savez(buffer, w=np.arange(50.0))
    for name, content in (FOREIGN | {"npz": buffer.getvalue()}).items():
        try:
            DriftSurfClassifier.from_bytes(content)
            good = False
        except StateError:
            good = True
        outcome.check(good, {"foreign": name})
        outcome.count("foreign")
    with tempfile.TemporaryDirectory(dir=fast_folder()) as place:
        _checkpoints(outcome, Path(place), seed)
    return outcome


def _refused(data: bytes) -> bool:
    try:
        from_bytes(data)
    except StateError as error:
        return bool(str(error))
    return False


def _checkpoints(outcome: Outcome, place: Path, seed: int) -> None:
    """Replace each file of a checkpoint by every other one, by one of another run, by an older one, by trash."""
    path, other = place / "run", place / "other"
    work = Workload(steps=12, every=2, seed=seed)
    with CheckpointFolder(path) as folder, work.run(folder) as run:
        run.begin()
        older = place / "older"
        for X, y, position in run.plan.source.batches():
            run.take(X, y, position)
            if run.step % 2 == 0:
                run.checkpoint()
            if run.step == 8:
                shutil.copytree(path, older)
    Workload(steps=12, every=2, seed=seed + 1).finish(other)
    legal = {state_digest(CheckpointFolder(path).load(number).state) for number in _heads(path)}  # type: ignore[union-attr]
    names = sorted(file.name for file in path.iterdir() if file.suffix in (".state", ".csv", ".jsonl"))
    for name in names:
        whole = (path / name).read_bytes()
        sources = {
            f"{folder.name}/{file.name}": file.read_bytes()
            for folder in (path, other, older)
            for file in folder.iterdir()
            if file.is_file()
        }
        for what, content in {**sources, **FOREIGN, "absent": None}.items():
            if content == whole:
                continue
            if content is None:
                (path / name).unlink()
            else:
                (path / name).write_bytes(content)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found = CheckpointFolder(path).load()
                    good = found is not None and state_digest(found.state) in legal
                except StateError as error:
                    good = bool(str(error))
            outcome.check(good, {"file": name, "replaced by": what})
            outcome.count("files of a checkpoint replaced")
            (path / name).write_bytes(whole)
