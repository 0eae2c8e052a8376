"""The one way to EC2: a boto3 client with our credentials and time limits, and without retries."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)

from longshore.drivers.ec2.credential_files import rereading_session
from longshore.drivers.ec2.parameters import Ec2Parameters
from longshore.drivers.errors import ConfigError

_CONNECTIONS = 32


def ec2_client(parameters: Ec2Parameters, *, region: str = "") -> Any:
    """Return a client for any thread, of `region` ("": that of the parameters); close it.

    It asks EC2 nothing. Raises `ConfigError` when it cannot be made of the parameters.
    """
    try:
        session = boto3.session.Session(
            aws_access_key_id=parameters.access_key_id or None,
            aws_secret_access_key=parameters.secret_access_key or None,
            aws_session_token=parameters.session_token or None,
            region_name=region or parameters.region or None,
            botocore_session=rereading_session(parameters.profile),
        )
        return session.client(
            "ec2", endpoint_url=parameters.endpoint_url or None, config=_config(parameters)
        )
    except NoRegionError as error:
        what = "is not set, and boto3 finds none: write one like eu-central-1"
        raise ConfigError([("driver.parameters.region", what)]) from error
    except ProfileNotFound as error:
        what = f"is not in the files of the AWS tools ({error}): correct or remove it"
        raise ConfigError([("driver.parameters.profile", what)]) from error
    except PartialCredentialsError as error:
        what = f"is only a part of the credentials that boto3 finds ({error}): add the rest"
        raise ConfigError([("driver.parameters.access_key_id", what)]) from error
    except (BotoCoreError, ValueError) as error:
        what = f"cannot be used by boto3 ({error}): correct them, or the files of the AWS tools"
        raise ConfigError([("driver.parameters", what)]) from error


def _config(parameters: Ec2Parameters) -> Config:
    return Config(
        connect_timeout=parameters.connect_timeout_s,
        read_timeout=parameters.read_timeout_s,
        # What fails is judged by us, and tried again when the pool says so.
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=_CONNECTIONS,
        user_agent_extra="longshore",
    )
