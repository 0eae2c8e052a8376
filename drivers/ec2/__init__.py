"""The driver `ec2`: instances of Amazon EC2, and of what speaks its API, through boto3.

What enters here knows EC2. `parameters`, `families`, `requests`, `power` and `user_data` decide, as
functions of values; `client`, `keys` and `instance_set` call; `faults` has the one table of what
errors mean.
"""
