"""Sources and sinks of served models: brokers and databases that they read from and write to, beside HTTP."""
