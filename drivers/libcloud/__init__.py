"""The driver for the clouds that Apache Libcloud speaks to."""
