"""Contracts, shared values and infrastructure that every other package builds on.

=======================================  ==========================================================================
``contracts``, ``abilities``             protocols of learners, detectors and strategies; what a part may offer beyond
                                         its protocol
``batches``                              values that pass between parts, such as ``Batch`` and ``Segment``
``decisions``, ``journal``               what a strategy saw and decided in a step, in words; the record of all steps
``input``, ``frames``, ``typing``        validation of rows; tables of other libraries; types of arguments
``targets``                              class labels and their codes, or numbers for regression
``samples``, ``buffer``                  the sample store; the growing arrays it is made of
``state``                                the state format: flat dictionaries as bytes
``exports``                              public names of packages, whose modules are imported when a name is first used
``options``                              checks of constructor arguments; reading and changing them
``option_fields``                        options of a run, each defined once with its help text
``files``, ``disk``                      durable files and their JSON; every call to the operating system behind them
``threads``                              locks that survive a fork; threads that end with their context
``wording``, ``measures``                words that depend on numbers; names and form of errors and shares
``values``                               a fast ``replace`` for frozen dataclasses
=======================================  ==========================================================================

Nothing here learns, decides or prints, and nothing here depends on a concrete learner or strategy.
"""
