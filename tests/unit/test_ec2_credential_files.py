"""Credentials that are renewed in the files of the AWS tools are used without a restart."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longshore.drivers.ec2 import credential_files
from longshore.drivers.ec2.client import ec2_client
from longshore.drivers.ec2.parameters import Ec2Parameters


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return path


def write(path: Path, key: str, *, section: str = "default") -> None:
    lines = [f"[{section}]", f"aws_access_key_id = {key}", f"aws_secret_access_key = s-{key}"]
    path.write_text("\n".join([*lines, f"aws_session_token = t-{key}", ""]), encoding="utf-8")


def used(client: Any) -> str:
    """Return the key with which a request would be signed."""
    signed: str = client.generate_presigned_url("describe_instances")
    return next(key for key in ("AKIAOLD", "AKIANEW", "AKIAOWN") if key in signed)


@pytest.mark.parametrize("profile", ["", "batch"])
@pytest.mark.parametrize("file", ["credentials", "config"])
def test_what_is_renewed_in_the_files_is_used_from_the_next_minute_on(
    shared: Path, monkeypatch: pytest.MonkeyPatch, profile: str, file: str
) -> None:
    section = profile or "default"
    if file == "config" and profile:
        section = f"profile {profile}"
    path = shared.with_name(file)
    write(path, "AKIAOLD", section=section)
    client = ec2_client(Ec2Parameters(region="eu-1", profile=profile))
    assert used(client) == "AKIAOLD"
    write(path, "AKIANEW", section=section)
    assert used(client) == "AKIAOLD", "a minute is not over"
    monkeypatch.setattr(credential_files, "_KEPT", timedelta(seconds=-1))
    write(path, "AKIAOLD", section=section)
    other = ec2_client(Ec2Parameters(region="eu-1", profile=profile))
    write(path, "AKIANEW", section=section)
    assert used(other) == "AKIANEW"


def test_keys_of_the_parameters_go_before_the_files(shared: Path) -> None:
    write(shared, "AKIAOLD")
    own = Ec2Parameters(region="eu-1", access_key_id="AKIAOWN", secret_access_key="x")
    assert used(ec2_client(own)) == "AKIAOWN"


def test_files_that_lose_their_credentials_keep_the_last_until_they_end(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credential_files, "_KEPT", timedelta(seconds=-1))
    write(shared, "AKIAOLD")
    client = ec2_client(Ec2Parameters(region="eu-1"))
    shared.write_text("", encoding="utf-8")
    assert used(client) == "AKIAOLD", "whoever writes it anew may be in the middle of it"
