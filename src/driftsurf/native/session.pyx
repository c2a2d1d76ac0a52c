"""The usual time step of a session in one call: predicted, checked, learned, watched and published.

A session takes every kind of step as ``Session._learned`` says. Here is the one that nearly all are: the cell of a
strategy learns a batch whose classes it knows, in room that it has. No line of Python runs in between, unless a monitor
looks closer, so that going back is one call as well.
"""

from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint64_t

from driftsurf.native.buffers cimport ds_enter_usual_mode, ds_leave_usual_mode
from driftsurf.native.cell cimport Cell
from driftsurf.native.layout cimport LEARNED, LOGISTIC, Rows

import numpy as np

cdef tuple IN_STEP = (None, None)  # going back needs no mark, and the step is over when the call returns


cdef bint is_usual(X, Cell cell) except -1:
    """Return whether X is an array whose rows a cell takes as they are."""
    cdef Py_buffer view
    cdef const Rows* rows = &cell.arrays.X
    cdef bint usual
    if type(X) is not np.ndarray or rows.indptr != NULL:
        return False
    try:
        PyObject_GetBuffer(X, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
    except (BufferError, ValueError):  # rows that lie apart; dates, and other types that no other library knows
        return False
    usual = view.ndim == 2 and view.shape[0] > 0 and view.shape[1] == rows.d and view.format[1] == 0
    usual = usual and view.format[0] == (c"f" if rows.is_single else c"d") and <size_t>view.buf % view.itemsize == 0
    PyBuffer_Release(&view)
    return usual


def usual_step(session, known, X, y, bint predict):
    """Take one step of a session; None if it is not usual, and nothing was changed.

    Parameters
    ----------
    session
        The session, whose lock the caller holds, between steps, after its first one, without a buffer.
    known
        The known classes, or what is known about the numbers to predict.
    X, y
        Rows and labels as a user has passed them.
    predict
        Whether to predict the rows before they are learned.

    Returns
    -------
    The values before the step, codes of the labels, scores of the rows, or None unless they were asked for, and the
    record of the step.
    """
    models = session.strategy._cell
    if models is None or not is_usual(X, models.native):
        return None
    read, codes = known.read(y, len(X))
    try:
        return step_of(session, read, X, codes, predict)
    except BaseException as error:
        error.add_note("No row of this call was taken.")
        raise


cdef object step_of(session, known, X, y, bint predict):
    cdef uint64_t mode = ds_enter_usual_mode()
    cdef object rows = X, strategy = session.strategy, models
    cdef Cell cell = None
    cdef int64_t count
    session._before = IN_STEP
    try:
        before, models = session._now, strategy._cell  # not earlier: a signal handler may have taken a step
        targets, guard, schema, steps, _, scorer, monitor = before
        if known is not targets or models is None:  # with new classes
            return None
        cell = models.native
        cell.mark()
        if cell._observe(X, y, None, None, None, guard, predict) != LEARNED:
            return None
        count, scores = cell.scored, cell.predicted
        if cell.limited:
            rows = models.newest(count).X
        if models._log is not None:
            models._log_touched()
        if monitor is not None and steps > 0:
            monitor = monitor.after(
                steps, cell.arrays.counts.next - count, rows, y, cell.tested_scores(), scorer, session._column_names,
                targets.labels, strategy
            )
        if cell.training.regression and guard is not None:
            targets = targets.after_step(y, None)
        scorer = cell.margin_scorer() if cell.training.kind == LOGISTIC else models.scorer()
        record = cell.record(models.reader)
        after = targets, cell.guard, schema, steps + 1, len(targets.labels), scorer, monitor
        now = tuple.__new__(type(before), after)
        strategy._scorer = scorer
        session._now = now
        return before, y, scores, record
    except BaseException:
        if cell is not None:
            cell.put_back()
        raise
    finally:
        ds_leave_usual_mode(mode)
        session._before = None
