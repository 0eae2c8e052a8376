"""What became of containers and instances, as spans of OpenTelemetry for a collector.

May enter: what makes spans of what is recorded, and what sends them. Nothing is recorded here.
"""
