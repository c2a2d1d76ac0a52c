"""The live page of a service: the report pages of its models, kept up to date while somebody looks at them."""
