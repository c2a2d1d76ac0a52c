"""Exceptions and warnings of the package.

Every error derives from :class:`DriftsurfError` and from the built-in exception that fits it, so that either can be
caught. Each message names the value, the choices and the remedy.

::

    DriftsurfError
     +-- OptionError (ValueError)
     +-- InputError (ValueError)
     |    +-- ShapeError
     |    +-- NonFiniteError
     |    +-- ValueTypeError (TypeError)
     |    +-- LabelError
     |    +-- SchemaError
     |    +-- BadRowError
     |    +-- IdempotencyError
     |         +-- AnswerGoneError
     +-- CapabilityError (ValueError)
     +-- CheckError (AssertionError)
     +-- DivergenceError (ArithmeticError)
     +-- StateError (ValueError)
     |    +-- StateVersionError
     +-- StepInProgressError (RuntimeError)
     +-- LockedError (OSError)
     +-- RunFolderError (OSError)
     +-- FetchError (OSError)
     +-- SourceError (OSError)
     |    +-- SourceUnreachableError
     +-- LogError (OSError)
     |    +-- LogConflictError
     |    +-- LogUnreachableError
     +-- ServiceError (RuntimeError)
     |    +-- UnavailableError
     |    |    +-- NotLeadingError
     |    +-- ReplicaDiffersError
     |    +-- NameTakenError
     |    +-- OverloadedError
     |    +-- StorageFullError
     +-- DeliveryError (OSError)
     +-- MissingExtraError (ImportError)
     +-- RunStopped
     +-- RunDrifted

    KeyboardInterrupt
     +-- RunInterrupted

    UserWarning
     +-- DriftsurfWarning
          +-- ColumnWarning
          +-- RunWarning
          +-- StateWarning
          +-- SmallBatchWarning
          +-- CompilationWarning
          +-- RegistryWarning
"""

from __future__ import annotations

from driftsurf.errors._input import (
    AnswerGoneError,
    BadRowError,
    CapabilityError,
    CheckError,
    DivergenceError,
    IdempotencyError,
    InputError,
    LabelError,
    MissingExtraError,
    NonFiniteError,
    OptionError,
    SchemaError,
    ShapeError,
    StateError,
    StateVersionError,
    StepInProgressError,
    ValueTypeError,
)
from driftsurf.errors._message import (
    DriftsurfError,
    DriftsurfWarning,
    Message,
    Option,
    RowIndex,
    reason,
)
from driftsurf.errors._runs import (
    ColumnWarning,
    CompilationWarning,
    DeliveryError,
    FetchError,
    LockedError,
    LogConflictError,
    LogError,
    LogUnreachableError,
    NameTakenError,
    NotLeadingError,
    OverloadedError,
    RegistryWarning,
    ReplicaDiffersError,
    RunDrifted,
    RunFolderError,
    RunInterrupted,
    RunStopped,
    RunWarning,
    ServiceError,
    SmallBatchWarning,
    SourceError,
    SourceUnreachableError,
    StateWarning,
    StorageFullError,
    UnavailableError,
)

__all__ = [
    "AnswerGoneError",
    "BadRowError",
    "CapabilityError",
    "CheckError",
    "ColumnWarning",
    "CompilationWarning",
    "DeliveryError",
    "DivergenceError",
    "DriftsurfError",
    "DriftsurfWarning",
    "FetchError",
    "IdempotencyError",
    "InputError",
    "LabelError",
    "LockedError",
    "LogConflictError",
    "LogError",
    "LogUnreachableError",
    "Message",
    "MissingExtraError",
    "NameTakenError",
    "NonFiniteError",
    "NotLeadingError",
    "Option",
    "OptionError",
    "OverloadedError",
    "RegistryWarning",
    "ReplicaDiffersError",
    "RowIndex",
    "RunDrifted",
    "RunFolderError",
    "RunInterrupted",
    "RunStopped",
    "RunWarning",
    "SchemaError",
    "ServiceError",
    "ShapeError",
    "SmallBatchWarning",
    "SourceError",
    "SourceUnreachableError",
    "StateError",
    "StateVersionError",
    "StateWarning",
    "StepInProgressError",
    "StorageFullError",
    "UnavailableError",
    "ValueTypeError",
    "reason",
]

for _one in map(globals().get, __all__):
    if isinstance(_one, type) and issubclass(_one, BaseException):
        _one.__module__ = __name__  # a traceback names the module that users import the class from
