"""An OpenID Connect provider for tests: oidc-provider-mock, as a process of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import urllib3

from tests.dispatcher_process import wait_for

CALLBACK = "http://127.0.0.1:1/callback"


class Provider:
    """oidc-provider-mock as a process of its own: each start has a new key, on the same port."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._http = urllib3.PoolManager(retries=False)

    def start(self) -> None:
        """Start it, and return once it answers."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "oidc_provider_mock", "--port", str(self._port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._answers, "the provider answers")

    def stop(self) -> None:
        """End it, and whoever it knew."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        self._http.clear()

    def _answers(self) -> bool:
        try:
            return self._http.request("GET", f"{self.url}/jwks").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def know(self, user: str, **claims: Any) -> None:
        """Have it say these things of a user."""
        url, headers = f"{self.url}/users/{user}", {"Content-Type": "application/json"}
        answer = self._http.request("PUT", url, body=json.dumps(claims), headers=headers)
        assert answer.status == 204

    def sign_in(self, user: str, **claims: Any) -> str:
        """Return the token that somebody gets who signs in, as a browser would."""
        ask = self._http.request
        self.know(user, **claims)
        client = {"client_id": "longshore", "redirect_uri": CALLBACK}
        query = {**client, "response_type": "code", "scope": "openid", "nonce": "n"}
        page = f"{self.url}/oauth2/authorize?{urlencode(query)}"
        sent = ask("POST", page, fields={"sub": user}, encode_multipart=False, redirect=False)
        [code] = parse_qs(urlsplit(sent.headers["Location"]).query)["code"]
        fields = {**client, "client_secret": "x", "grant_type": "authorization_code", "code": code}
        given = ask(
            "POST", f"{self.url}/oauth2/token", fields=fields, encode_multipart=False
        ).json()
        return str(given["id_token"])
