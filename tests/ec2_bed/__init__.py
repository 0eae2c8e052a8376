"""A small EC2 for tests: moto's server as a process, a proxy that brings the trouble and keeps the
promises that moto does not know, and a real sshd behind every address that is handed out."""
