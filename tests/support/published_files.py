"""Small files as they are published, compressed by their ending."""

from __future__ import annotations

import bz2
import gzip
import zipfile
from pathlib import Path


def pack(path: Path, text: str) -> Path:
    """Write ``text``, compressed as the ending says."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".bz2":
        path.write_bytes(bz2.compress(text.encode()))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner.csv", text)
    else:
        path.write_text(text)
    return path


ELECTRICITY = "0,2,0,0.056443,0.439155,0.003467,0.422915,0.414912,UP\n0.5,7,1,0.1,0.2,0.3,0.4,0.5,'DOWN'\n"
POWER = "117.4,127,0\n139.1,63.5,11\n69.55,0,12\n"
FLIGHTS = """2008,1,3,4,1000,1200,WN,335,150,IAD,TPA,810,0,-14
2008,1,3,4,2000,600,WN,3231,75,IAD,TPA,810,1,2
2008,1,12,5,0,1200,XE,448,90,BUR,ABQ,405,0,0
2008,2,1,5,1000,2400,XE,448,300,ABQ,BUR,405,0,9
"""
COVER = "1 1:0.5 8:0.25 54:1\n2 1:1 9:0.125\n2 8:1\n1 2:0.5\n"
RAW_COVER = "1 1:2000 8:10 54:1\n2 1:3000 9:4\n2 8:40\n1 2:1\n"
