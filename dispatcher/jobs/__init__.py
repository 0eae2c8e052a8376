"""Jobs: containers submitted together, what they wait for, and what becomes of them; pure.

`model` is the data, `book` the jobs that have not ended, `workflow` who waits for whom. What is of
one type of job only is in `dispatcher.elastic`, `dispatcher.per_instance`, `dispatcher.periodic`.
"""
