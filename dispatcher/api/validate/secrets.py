"""What may be wrong with the secrets of a request, and with the value of one.

No sentence quotes a value.
"""

from __future__ import annotations

from longshore.dispatcher.api.schemas.containers import (
    RunRequest,
    SecretRequest,
    SecretValueRequest,
)
from longshore.dispatcher.api.validate.names import (
    FILE_NAME,
    FILE_NAME_RULE,
    REGISTRY,
    RESERVED_PREFIX,
    RULE_FOR_SECRETS,
    SECRET_NAME,
    VARIABLE,
)
from longshore.dispatcher.api.validate.specification import secret_targets
from longshore.dispatcher.domain.secrets import SECRET_MOST_BYTES, SECRETS_PER_CONTAINER_MOST
from longshore.dispatcher.input.problems import Problems, element, member, quoted
from longshore.pool.model import SecretKind


def plain_env(request: RunRequest) -> dict[str, str]:
    """Return the environment with its secret values in the clear, for checks of their sizes."""
    return {
        name: value.secret if isinstance(value, SecretValueRequest) else value
        for name, value in request.env.items()
    }


def check_value(value: str, path: str, problems: Problems) -> None:
    """Add what is wrong with the value of a secret."""
    size = len(value.encode())
    if not value:
        problems.add(path, "is empty: give the secret's value")
    if size > SECRET_MOST_BYTES:
        problems.add(path, f"is {size} bytes, and {SECRET_MOST_BYTES} are the most")


def check_secrets(request: RunRequest, place: str, problems: Problems) -> None:
    """Add what is wrong with the secrets that a container is given."""
    sealed = [n for n, each in request.env.items() if isinstance(each, SecretValueRequest)]
    if len(request.secrets) + len(sealed) > SECRETS_PER_CONTAINER_MOST:
        what = f"has over {SECRETS_PER_CONTAINER_MOST} secrets, those in env included"
        problems.add(f"{place}secrets", f"{what}: put several values into one, as a file")
        return
    for name, value in sorted(plain_env(request).items()):
        if name in sealed:
            check_value(value, f"{member(f'{place}env', name)}.secret", problems)
    taken: dict[tuple[SecretKind, str], str] = {
        (SecretKind.ENV, name): member(f"{place}env", name) for name in request.env
    }
    for number, each in enumerate(request.secrets):
        path = element(f"{place}secrets", number)
        if not SECRET_NAME.fullmatch(each.name):
            problems.add(f"{path}.name", f"is not a secret's name: {RULE_FOR_SECRETS}")
        _check_target(each, path, taken, problems, has_image=bool(request.image))


def _check_target(
    request: SecretRequest,
    path: str,
    taken: dict[tuple[SecretKind, str], str],
    problems: Problems,
    *,
    has_image: bool,
) -> None:
    targets = secret_targets(request)
    if len(targets) != 1:
        said = " and ".join(kind.value for kind, _ in targets) or "none of them"
        problems.add(path, f"says {said}: say one of env, file and registry")
        return
    kind, target = targets[0]
    where = f"{path}.{kind.value}"
    if wrong := _target_problem(kind, target):
        problems.add(where, wrong)
    if kind is SecretKind.REGISTRY and not has_image:
        problems.add(where, "is for fetching an image, and none is named: leave it out")
    if (kind, target) in taken:
        problems.add(where, f"{quoted(target)} is that of {taken[kind, target]} too: change one")
    taken.setdefault((kind, target), where)


def _target_problem(kind: SecretKind, target: str) -> str:
    """Return what is wrong with what a secret is to be, "" for nothing."""
    match kind:
        case SecretKind.ENV if not VARIABLE.fullmatch(target):
            return "is not a variable's name: use letters, digits and underscores, no digit first"
        case SecretKind.ENV if target.startswith(RESERVED_PREFIX):
            return f"is reserved: {RESERVED_PREFIX}* is set by the server"
        case SecretKind.FILE if not FILE_NAME.fullmatch(target):
            return f"is not a file's name: {FILE_NAME_RULE}"
        case SecretKind.REGISTRY if not REGISTRY.fullmatch(target):
            return "is not a registry: say HOST or HOST:PORT, such as ghcr.io"
        case SecretKind.ENV | SecretKind.FILE | SecretKind.REGISTRY:
            return ""
