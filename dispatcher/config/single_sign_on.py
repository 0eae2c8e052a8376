"""What may be wrong with `auth.issuer` and `auth.proxy`: whoever another vouches for.

Either lets in whom somebody else knows, so each needs `auth.mode: required`: in open mode who
shows nothing is an admin, and that is who a proxy sends when it knows nobody.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from longshore.dispatcher.config.hosts import is_loopback, networks
from longshore.dispatcher.config.model import (
    AuthConfig,
    AuthMode,
    IssuerConfig,
    IssuerLoginConfig,
    ProxyConfig,
)
from longshore.dispatcher.input.problems import Problems, element, member

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OURS = frozenset(
    {"authorization", "connection", "content-length", "content-type", "cookie", "forwarded"}
    | {"host", "origin", "sec-fetch-site", "transfer-encoding", "x-forwarded-for"}
)
"""Headers that mean something else already."""
LOGIN_CALLBACK = "/login/callback"
"""Where an issuer sends browsers back to, behind whatever prefix a proxy gives this server."""
_SECRET_BYTES_MOST = 1000
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")


def check_single_sign_on(auth: AuthConfig, mode: AuthMode, problems: Problems) -> None:
    """Add all that is wrong with the issuer and the proxy; `mode` is the one that counts."""
    _check_issuer(auth.issuer, problems)
    _check_proxy(auth.proxy, problems)
    if mode is AuthMode.OPEN:
        for name, given in (("issuer", auth.issuer.url), ("proxy", auth.proxy.addresses)):
            if given:
                problems.add(
                    f"auth.{name}",
                    "is no use while everybody is let in as an admin who says nothing: set"
                    " auth.mode: required",
                )


def _check_issuer(issuer: IssuerConfig, problems: Problems) -> None:
    if not issuer.url:
        if issuer != IssuerConfig():
            problems.add("auth.issuer.url", "is missing: without it nothing of auth.issuer counts")
        return
    if why := url_problem(issuer.url):
        problems.add("auth.issuer.url", why)
    if not issuer.audience:
        problems.add(
            "auth.issuer.audience",
            "is missing: name what the issuer's tokens for this server have as aud, or those for"
            " every other program would do here",
        )
    if not issuer.claims.user:
        problems.add("auth.issuer.claims.user", "must name a claim, such as sub")
    if issuer.roles and not issuer.claims.role:
        problems.add("auth.issuer.claims.role", "must name the claim whose values roles has")
    if not issuer.roles and issuer.default_role is None:
        problems.add(
            "auth.issuer.roles",
            "is empty and there is no default_role, so that nobody would have a role: give one of"
            " the two",
        )
    for value in sorted(issuer.roles):
        if not value:
            problems.add(member("auth.issuer.roles", value), "must not be empty")
    _check_login(issuer.login, issuer.audience, problems)


def _check_login(login: IssuerLoginConfig, audience: str, problems: Problems) -> None:
    where = "auth.issuer.login"
    if not login.client_id:
        if login != IssuerLoginConfig():
            said = "is missing: name this server as the issuer knows it, or leave login out"
            problems.add(f"{where}.client_id", said)
        return
    if audience and login.client_id != audience:
        said = (
            "must be auth.issuer.audience: an ID token has the client as its aud, and what browsers"
            " bring would be refused"
        )
        problems.add(f"{where}.client_id", said)
    try:
        login_secret(login)
    except ValueError as error:
        problems.add(f"{where}.client_secret_file", str(error))
    if "openid" not in login.scopes:
        said = "must have openid among them: without it the issuer makes no ID token"
        problems.add(f"{where}.scopes", said)
    for number, scope in enumerate(login.scopes):
        if not _SCOPE.fullmatch(scope):
            said = "is no scope: use printable ASCII without spaces, quotes and backslashes"
            problems.add(element(f"{where}.scopes", number), said)
    if login.redirect_url and (why := _redirect_problem(login.redirect_url)):
        problems.add(f"{where}.redirect_url", why)


def login_secret(login: IssuerLoginConfig) -> str:
    """Return what this server shows the issuer, read from its file now; "" where it has none.

    Raises `ValueError`, with the remedy, where the file cannot be read, can be read by everybody,
    or holds no secret.
    """
    if not login.client_secret_file:
        return ""
    file = Path(login.client_secret_file)
    try:
        with file.open("rb") as opened:
            content, mode = opened.read(_SECRET_BYTES_MOST + 1), file.stat().st_mode
    except OSError as error:
        said = f"{file} cannot be read ({error.strerror}): have the server's user read it"
        raise ValueError(said) from error
    if mode & 0o027:
        raise ValueError(f"{file} (mode {mode & 0o777:04o}) is open to others: chmod 600 {file}")
    text = content.strip().decode("ascii", errors="replace")
    if not text or len(content) > _SECRET_BYTES_MOST or not (text.isascii() and text.isprintable()):
        raise ValueError(
            f"{file} holds no secret of a client, which is one line of at most"
            f" {_SECRET_BYTES_MOST} characters: write into it what the issuer gave"
        )
    return text


def _redirect_problem(url: str) -> str:
    if why := url_problem(url):
        return why.replace(": keys are fetched from it", ", or be on this machine")
    if not urlsplit(url).path.endswith(LOGIN_CALLBACK):
        return f"must end in {LOGIN_CALLBACK}, where this server waits for browsers"
    return ""


def _check_proxy(proxy: ProxyConfig, problems: Problems) -> None:
    if not proxy.addresses:
        if proxy != ProxyConfig():
            said = "are none: name those of the proxy, or its headers count from nobody"
            problems.add("auth.proxy.addresses", said)
        return
    for number, text in enumerate(proxy.addresses):
        if why := _network_problem(text):
            problems.add(element("auth.proxy.addresses", number), why)
    if not proxy.user_header:
        problems.add("auth.proxy.user_header", "must name the header that has the user")
    _check_headers(proxy, problems)


def _check_headers(proxy: ProxyConfig, problems: Problems) -> None:
    seen: dict[str, str] = {}
    for name, header in (
        ("user_header", proxy.user_header),
        ("projects_header", proxy.projects_header),
        ("role_header", proxy.role_header),
    ):
        if not header:
            continue
        if not _HEADER.fullmatch(header):
            problems.add(f"auth.proxy.{name}", "is no name of a header, such as X-Forwarded-User")
        elif header.lower() in _OURS:
            problems.add(f"auth.proxy.{name}", "has a meaning of its own: name another header")
        elif other := seen.get(header.lower()):
            problems.add(f"auth.proxy.{name}", f"is {other} too: name a header for each")
        seen.setdefault(header.lower(), name)


def url_problem(url: str) -> str:
    """Return why `url` is none that keys can be fetched from safely, "" when it is one."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        return "is not a URL, such as https://login.example.org/realms/main"
    if not host or parts.username is not None or parts.query or parts.fragment:
        return "must be https://HOST/PATH, without a user, a query or a fragment"
    return "" if _is_safe(parts, host) else "must begin with https://: keys are fetched from it"


def _is_safe(parts: SplitResult, host: str) -> bool:
    """Return whether nobody on the way can change what is fetched."""
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def _network_problem(text: str) -> str:
    try:
        [network] = networks([text])
    except ValueError:
        return "is no address and no network such as 10.0.0.0/24, whose last bits are 0"
    if network.prefixlen == 0:
        return "is every address there is: anybody could say who they are; name the proxy's"
    return ""
