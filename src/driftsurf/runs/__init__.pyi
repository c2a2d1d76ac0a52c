from driftsurf.runs.api import run as run
from driftsurf.runs.execute import RunLoop as RunLoop
from driftsurf.runs.live import LiveRun as LiveRun
from driftsurf.runs.options import RunOptions as RunOptions
from driftsurf.runs.plan import RunPlan as RunPlan
from driftsurf.runs.plan import RunStart as RunStart
from driftsurf.runs.result import RunResult as RunResult

__all__: list[str]
