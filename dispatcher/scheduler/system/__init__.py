"""System and sysbatch jobs: one container on each instance that matches; pure.

`plan` compares what should be with what is and says what to do; `controller` carries it out.
"""
