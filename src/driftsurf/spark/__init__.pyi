from driftsurf.spark.files import read_files as read_files
from driftsurf.spark.files import with_derived as with_derived
from driftsurf.spark.run import run_spark as run_spark
from driftsurf.spark.run import session as session
from driftsurf.spark.step import learn_keys as learn_keys
from driftsurf.spark.step import table as table

__all__: list[str]
