"""The backend of :class:`~driftsurf.keyed.Fleet` for any strategy and learner: a session per key."""
