"""HTTP API of served models: routes, limits, keys, problem details, events and the server."""
