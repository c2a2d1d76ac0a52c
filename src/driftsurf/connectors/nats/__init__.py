"""NATS JetStream: ``nats://host:4222/STREAM``."""
