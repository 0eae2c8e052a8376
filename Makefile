SHELL := /bin/bash
.PHONY: setup demo test check bench
