"""What the engine knows: containers, jobs, their dependencies, the queue and its gates; pure.

What may enter: tables that change by the engine's events alone, and what is computed of an attempt
when it ends. Nothing here decides who runs where.
"""
