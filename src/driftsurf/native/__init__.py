"""The native core: compiled loops and models without any Python in them, and the modules that bind them."""

from driftsurf.native.sources import check as _check

_check(__path__[0])
