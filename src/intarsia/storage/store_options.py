"""Options of an object store: its settings, timeouts, retries and the rule for overwriting objects."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, TypeAlias, get_args

from intarsia.errors import ObjectStoreError

#: Options by name; see `intarsia.open`.
StorageOptions: TypeAlias = Mapping[str, Any]

#: What happens to an object that is too large for a conditional put: an error, or it is replaced even if
#: another process has just replaced it.
Overwrite: TypeAlias = Literal["never", "last-writer-wins"]

#: obstore's defaults: the limit on one attempt, and on the pause between two attempts.
ATTEMPT_SECONDS = 30.0
PAUSE_SECONDS = 15.0

#: The parts of a deadline that one attempt and one pause may take.
_ATTEMPT_PART = 0.3
_PAUSE_PART = 0.1

#: Settings of the HTTP client, which obstore takes separately from those of the store.
_CLIENT_SETTINGS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)

#: The beginnings of the names of settings and variables, by patterns for the beginnings of URLs.
_PREFIXES = {
    "aws_": r"s3a?://|https?://[^/]*\.(amazonaws|cloudflarestorage)\.com",
    "google_": r"gs://",
    "azure_": r"(az|azure|adl|abfss?)://|https?://[^/]*\.(core\.windows\.net|fabric\.microsoft\.com)",
}

#: Arguments of `obstore.store.from_url` that are passed on as they are.
_PASSED_ON = ("credential_provider", "retry_config")


def store_arguments(url: str, options: StorageOptions | None) -> dict[str, Any]:
    """Return the arguments with which obstore opens the store of a URL.

    Args:
        url: The URL of an object or a folder.
        options: The options of the caller; None to read all settings from the environment.

    Raises:
        ObjectStoreError: If an option has no such value.

    Example:
        >>> arguments = store_arguments("s3://bucket/x", {"aws_region": "eu-west-1", "deadline_seconds": 20})
        >>> arguments["config"], arguments["client_options"]
        ({'aws_region': 'eu-west-1'}, {'timeout': datetime.timedelta(seconds=6)})
        >>> arguments["retry_config"]["retry_timeout"]
        datetime.timedelta(seconds=12)
        >>> store_arguments("s3://bucket/x", None)
        {}
    """
    scheme = url.partition("://")[0].lower()
    prefix = next((found for found, start in _PREFIXES.items() if re.match(start, url, re.IGNORECASE)), "")
    left = {str(name).lower(): value for name, value in (options or {}).items()}
    overwrite_of(url, {"overwrite": left.pop("overwrite", "never")})
    client = dict(left.pop("client_options", {}))
    arguments = {name: left.pop(name) for name in _PASSED_ON if name in left}
    deadline = _seconds(url, left, "deadline_seconds")
    timeout = _seconds(url, left, "timeout_seconds")
    retries = left.pop("max_retries", None)
    if retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
        raise _refused(url, f"max_retries is {retries!r}; it must be an integer of 0 or more")
    for name in list(left):
        plain = name.removeprefix(prefix)
        if plain in _CLIENT_SETTINGS:
            client[plain] = left.pop(name)
    if deadline is not None:
        timeout = min(timeout or ATTEMPT_SECONDS, deadline * _ATTEMPT_PART)
    if timeout is not None:
        client["timeout"] = timedelta(seconds=timeout)
    if scheme == "http":
        client.setdefault("allow_http", True)
    if client:
        # obstore ignores the client's settings in the environment if it is passed others
        from_environment = {name: os.environ.get(f"{prefix}{name}".upper()) for name in _CLIENT_SETTINGS}
        client = {name: value for name, value in from_environment.items() if value and prefix} | client
        arguments["client_options"] = client
    if "retry_config" not in arguments and (deadline is not None or retries is not None):
        arguments["retry_config"] = _retries(deadline, timeout or ATTEMPT_SECONDS, retries)
    if left:
        if not prefix and scheme in ("http", "https"):
            raise _refused(url, f"web servers have no option {next(iter(left))!r}", "unknown-option")
        arguments["config"] = {
            name: value if isinstance(value, (bool, str)) else str(value) for name, value in left.items()
        }
    return arguments


def overwrite_of(url: str, options: StorageOptions | None) -> Overwrite:
    """Return what happens to objects that are too large for a conditional put.

    Raises:
        ObjectStoreError: If the option has no such value.
    """
    found: Overwrite = (options or {}).get("overwrite", "never")
    if found not in get_args(Overwrite):
        raise _refused(url, f"overwrite is {found!r}; it must be 'never' or 'last-writer-wins'")
    return found


def _retries(deadline: float | None, timeout: float, retries: int | None) -> dict[str, Any]:
    """Return obstore's settings with which the last attempt ends before the deadline.

    An attempt starts at most one pause after ``retry_timeout``, and takes at most ``timeout`` seconds.
    """
    config: dict[str, Any] = {} if retries is None else {"max_retries": retries}
    if deadline is not None:
        pause = min(PAUSE_SECONDS, deadline * _PAUSE_PART)
        config["retry_timeout"] = timedelta(seconds=max(0.0, deadline - timeout - pause))
        config["backoff"] = {
            "init_backoff": timedelta(seconds=min(0.1, pause)),
            "max_backoff": timedelta(seconds=pause),
            "base": 2,
        }
    return config


def _seconds(url: str, options: dict[str, Any], name: str) -> float | None:
    value = options.pop(name, None)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise _refused(url, f"{name} is {value!r}; it must be a positive number of seconds")
    return float(value)


def _refused(url: str, message: str, reason: str = "invalid-option") -> ObjectStoreError:
    return ObjectStoreError(f"{url}: {message}", reason=reason, path=url)
