"""Brokers and databases as sources of rows and as destinations of predictions: one file or folder for each system.

Each holds the client, the source, the sink and the errors that mean a refusal. Nothing else in the library imports this
package: the registry finds a system by the scheme of an address. What systems share is in
:mod:`driftsurf.data.messages`.
"""
