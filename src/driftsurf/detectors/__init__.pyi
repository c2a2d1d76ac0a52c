# Made by `make generate`: do not edit.
from driftsurf.detectors.adwin import ADWIN as ADWIN
from driftsurf.detectors.ddm import DDM as DDM
from driftsurf.detectors.eddm import EDDM as EDDM
from driftsurf.detectors.fhddm import FHDDM as FHDDM
from driftsurf.detectors.mddm import MDDM as MDDM
from driftsurf.detectors.page_hinkley import PageHinkley as PageHinkley

__all__: list[str]
