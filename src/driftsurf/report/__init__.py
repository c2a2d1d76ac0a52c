"""Tables and pages, made from traces and journals alone."""
