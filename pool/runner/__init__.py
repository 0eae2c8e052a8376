"""The program that runs on instances: starts attempts, keeps their exits, streams their logs.

It is shipped as one zipapp (`pool.remote.deploy`), so only the standard library and its own modules
may enter, in the syntax and at the run-time features of Python 3.8.
"""
