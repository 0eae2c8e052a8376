"""The driver kit: checks that a driver keeps the contract, as a command and for pytest."""
