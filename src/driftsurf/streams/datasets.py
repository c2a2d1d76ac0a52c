"""The real data of the paper, and what stands in where they are not at hand: one entry each, as data.

``exact`` data are those of the paper's tables. Stand-ins have names of their own, so that their numbers never
come to stand in a row of the paper.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from driftsurf.errors import InputError, OptionError
from driftsurf.streams import _tables, files
from driftsurf.streams.base import Block

__all__ = ["DATASETS", "Dataset", "find", "get", "how_to_get", "require"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """A set of real data: what it is, where it comes from, and how it becomes a stream."""

    name: str
    label: str
    """What tables call it."""
    description: str
    rows: int
    columns: int | None
    """None where the file decides: one column for each airport."""
    batch_size: int
    """Rows in a time step; what is left over at the end makes none."""
    aware_steps: tuple[int, ...] = ()
    """Where Aware starts anew, unless drift is injected."""
    read: Callable[[Path], Block]
    values: str | None
    """SHA-256 of rows and labels as read; None where they were never at hand."""
    sparse: bool = False
    shuffled: bool = False
    tf_idf: bool = False
    injected: Literal["swap_labels", "rotate"] | None = None
    """The drift made in rows 0.3 n to 0.6 n."""
    stands_for: str | None = None
    """The paper's data whose place it takes."""

    files: tuple[str, ...]
    """Names it is found under, packed or not."""
    page: str
    """Where it is described."""
    urls: tuple[str, ...] = ()
    """The published file; none where its address is not established."""
    saved_as: str = ""
    """The name of the file when it is fetched."""
    sha256: str | None = None
    """Of the published file, packed as it is; None where not known."""
    n_bytes: int | None = None
    licence: str

    @property
    def exact(self) -> bool:
        """Whether these are the data of the paper."""
        return self.stands_for is None

    @property
    def batches(self) -> int:
        """Time steps."""
        return self.rows // self.batch_size


_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
_GITHUB = "https://raw.githubusercontent.com"
_NO_LICENCE = "public, no licence stated"
_FLIGHTS = f"records of the US Bureau of Transportation Statistics; this selection: {_NO_LICENCE}"

_ENTRIES = (
    Dataset(
        name="rcv1",
        label="RCV1",
        description="newswire stories, cosine-normalised tf-idf; labels swapped between the drifts",
        rows=20_242,
        columns=47_236,
        batch_size=202,
        read=_tables.rcv1,
        values=None,
        sparse=True,
        shuffled=True,
        injected="swap_labels",
        files=("rcv1_train.binary",),
        page="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#rcv1.binary",
        urls=(f"{_LIBSVM}/rcv1_train.binary.bz2",),
        saved_as="rcv1_train.binary.bz2",
        licence="vectors of Lewis et al. (2004), given freely for research; the texts belong to Reuters",
    ),
    Dataset(
        name="covertype",
        label="CoverType",
        description="forest cover type from maps; two columns rotated between the drifts",
        rows=581_012,
        columns=54,
        batch_size=5_810,
        read=_tables.covertype,
        values=None,
        shuffled=True,
        injected="rotate",
        files=("covtype.libsvm.binary.scale", "covtype.libsvm.binary"),
        page="https://archive.ics.uci.edu/dataset/31/covertype",
        urls=(f"{_LIBSVM}/covtype.libsvm.binary.scale.bz2",),
        saved_as="covtype.libsvm.binary.scale.bz2",
        licence="CC BY 4.0 (UCI, Blackard 1998); LIBSVM's copy",
    ),
    Dataset(
        name="airline",
        label="Airline",
        description="the first 58,100 flights of 2008, late or not; categories one-hot",
        rows=58_100,
        columns=None,
        batch_size=581,
        aware_steps=(31, 67),
        read=partial(_tables.airline, year=2008, file_rows=5_810_462, rows=58_100),
        values=None,
        sparse=True,
        files=("2008_14col.data", "2008_14col.csv"),
        page="http://kt.ijs.si/elena_ikonomovska/data.html",
        licence=_FLIGHTS,
    ),
    Dataset(
        name="electricity",
        label="Electricity",
        description="New South Wales electricity market, price up or down",
        rows=45_312,
        columns=13,
        batch_size=1_332,
        aware_steps=(20,),
        read=_tables.electricity,
        values="c7ea47672ddacdc9d8df471a0db8b1439b29a7069f1dc187d569dc977c914e8f",
        files=("elec2.csv", "electricity-normalized.csv", "elecNormNew.arff", "electricity"),
        page="https://www.openml.org/d/151",
        urls=("https://maxhalford.github.io/files/datasets/electricity.zip",),
        saved_as="electricity.zip",
        licence=f"{_NO_LICENCE} (Harries 1999)",
    ),
    Dataset(
        name="powersupply",
        label="PowerSupply",
        description="Italian power supply from two sources, before or after noon",
        rows=29_928,
        columns=2,
        batch_size=299,
        aware_steps=(17, 47, 76),
        read=_tables.powersupply,
        values="492176f4e9a232cbe7d34515ff5379cec837c1cd5c44cb66068987ab47a6d4a7",
        files=("powersupply.csv", "powersupply.arff"),
        page="https://www.cse.fau.edu/~xqzhu/stream.html",
        urls=("https://www.cse.fau.edu/~xqzhu/Stream/powersupply.arff",),
        saved_as="powersupply.arff",
        licence=f"{_NO_LICENCE} (Zhu 2010)",
    ),
    Dataset(
        name="covertype-sample",
        label="CoverType (16 % sample)",
        description="a stratified sample of Covertype, rotated alike; six times fewer steps, +1 = type 2",
        rows=92_962,
        columns=54,
        batch_size=929,
        read=_tables.covertype_sample,
        values="c27480d6eeaca924cbab60bd09f943e300c2148b8b9dbe6bf8f111fd3f86f29e",
        injected="rotate",
        stands_for="covertype",
        files=("covtype_sample92962.csv",),
        page="https://github.com/ramp-kits/covertype",
        urls=(f"{_GITHUB}/ramp-kits/covertype/af435f432b221d5c205209d9331ca3b540a6a3a1/data/test.csv.gz",),
        saved_as="covtype_sample92962.csv.gz",
        licence="CC BY 4.0 (UCI, Blackard 1998)",
    ),
    Dataset(
        name="airline-2007",
        label="Airline 2007",
        description="the first 50,482 flights of 2007, prepared as those of 2008 are",
        rows=50_482,
        columns=601,
        batch_size=581,
        aware_steps=(33, 69),
        read=partial(_tables.airline, year=2007, file_rows=50_482, rows=50_482),
        values="12ed9418055e93666d786fd29244f6d32db617d9f0ff9420ba1223388cd25bae",
        sparse=True,
        stands_for="airline",
        files=("airline_2007_first50482.csv", "airline_2007_first50482.arff"),
        page="https://github.com/kosmag/FeatExtream",
        urls=(f"{_GITHUB}/kosmag/FeatExtream/0fa458e7620a170970170f69cd4e7c16a3603721/data/airlines.arff",),
        saved_as="airline_2007_first50482.arff",
        n_bytes=2_500_818,
        licence=_FLIGHTS,
    ),
    Dataset(
        name="newsgroups20",
        label="20 Newsgroups",
        description="comp.* and sci.* against the rest, cosine-normalised tf-idf; labels swapped as in RCV1",
        rows=18_846,
        columns=26_214,
        batch_size=188,
        read=_tables.newsgroups20,
        values="5fa8a42a77b4434da2d341f38c51e99663e051168e0fdac013a880ef15373dbe",
        sparse=True,
        shuffled=True,
        tf_idf=True,
        injected="swap_labels",
        stands_for="rcv1",
        files=("newsgroups20_18846.svm",),
        page="https://github.com/Saeidhoseinipour/NMTFcoclust",
        licence=_NO_LICENCE,
    ),
    Dataset(
        name="spam-assassin",
        label="SpamAssassin",
        description="words of e-mails in the order of time, spam or not; drifts by itself, no known times",
        rows=9_324,
        columns=39_916,
        batch_size=93,
        read=_tables.spam_assassin,
        values="49c19d0bc49b5a07018b88ad84d7c71249278d4f2a6508ba4bd884f0fba0c279",
        sparse=True,
        stands_for="rcv1",
        files=("spam_assassin_39916.svm",),
        page="https://github.com/vlosing/driftDatasets",
        licence=f"{_NO_LICENCE} (Katakis et al. 2010)",
    ),
)

DATASETS: dict[str, Dataset] = {entry.name: entry for entry in _ENTRIES}
"""The paper's in the order of its tables, then the stand-ins."""


def get(name: str) -> Dataset:
    """The entry of this name.

    >>> get("electricity").batches
    34
    >>> get("elec")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: no dataset 'elec'; did you mean 'electricity'? choices: rcv1, ...
    """
    entry = DATASETS.get(name)
    if entry is None:
        near = difflib.get_close_matches(name.lower(), DATASETS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise OptionError(f"no dataset {name!r}; {hint}choices: {', '.join(DATASETS)}")
    return entry


def find(name: str) -> Path | None:
    """The file of this dataset in the folder that DRIFTSURF_DATA names or in the cache, if it is there."""
    return files.find(get(name).files)


def require(name: str) -> Path:
    """The file of this dataset, or InputError that says how to get it."""
    path = find(name)
    if path is None:
        at_hand = [other.name for other in DATASETS.values() if other.stands_for == name and find(other.name)]
        instead = f" (in its place there is {', '.join(at_hand)})" if at_hand else ""
        raise InputError(f"{name} is not at hand{instead}; {how_to_get(get(name))}")
    return path


def how_to_get(dataset: Dataset) -> str:
    """What a user can do who does not have it."""
    by_hand = f"set {files.FOLDER_VARIABLE} to a folder with {dataset.files[0]}, plain or packed"
    if dataset.urls:
        return f"get it with 'driftsurf datasets fetch {dataset.name}', or {by_hand}"
    return f"get it by hand from {dataset.page}, and {by_hand}"
