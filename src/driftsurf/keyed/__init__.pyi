from driftsurf.keyed.fleet import Fleet as Fleet
from driftsurf.keyed.folder import KeyedFolder as KeyedFolder
from driftsurf.keyed.grouping import Columns as Columns
from driftsurf.keyed.keys import key_seed as key_seed
from driftsurf.keyed.options import EngineOptions as EngineOptions
from driftsurf.keyed.options import KeyedOptions as KeyedOptions
from driftsurf.keyed.results import KeySummary as KeySummary
from driftsurf.keyed.results import Visit as Visit
from driftsurf.keyed.rows import KeyRows as KeyRows
from driftsurf.keyed.run import Engine as Engine
from driftsurf.keyed.run import KeyedJob as KeyedJob
from driftsurf.keyed.run import run_keyed as run_keyed
from driftsurf.keyed.visit import KeyedLearner as KeyedLearner

__all__: list[str]
