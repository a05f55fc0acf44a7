"""The settings of stores, and the errors of obstore in one line with the URL, the cause and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from intarsia.amounts import cut
from intarsia.errors import IntarsiaError, ObjectStoreError

#: Maximum length of a cause in a message. A cause may contain the whole response of a server.
MAX_CAUSE_CHARS = 240

#: Options by the URL of a store, which apply to all code of a block that names none of its own.
_OFFERED: ContextVar[Mapping[str, Mapping[str, Any]] | None] = ContextVar("_OFFERED", default=None)


class StoreKind(NamedTuple):
    """A kind of store.

    Attributes:
        urls: A regular expression that matches the beginnings of its URLs.
        prefix: The beginning of the names of its settings, and of the variables that obstore reads.
        remedy: The settings that it needs.
        hadoop: The beginning of the names of Hadoop's settings for it.
    """

    urls: str
    prefix: str
    remedy: str
    hadoop: str = ""


#: The first match is used.
_KINDS = (
    StoreKind(
        r"s3a?://|https?://[^/]*\.(amazonaws|cloudflarestorage)\.com",
        "aws_",
        "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION in the environment; for a self-hosted "
        "store also AWS_ENDPOINT_URL, and AWS_ALLOW_HTTP=true for plain HTTP; for a public bucket only "
        "AWS_SKIP_SIGNATURE=true",
        "fs.s3a.",
    ),
    StoreKind(
        r"gs://",
        "google_",
        "set GOOGLE_APPLICATION_CREDENTIALS in the environment to a credentials file; for a public bucket "
        "only GOOGLE_SKIP_SIGNATURE=true",
        "fs.gs.",
    ),
    StoreKind(
        r"(az|azure|adl|abfss?)://|https?://[^/]*\.(core\.windows\.net|fabric\.microsoft\.com)",
        "azure_",
        "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY in the environment, or "
        "AZURE_STORAGE_SAS_TOKEN instead of the key; for a public container AZURE_SKIP_SIGNATURE=true",
        "fs.azure.",
    ),
    StoreKind(
        r"https?://",
        "",
        "check that the server is reachable and allows anonymous reads; it lists folders only if it supports "
        "WebDAV, so name the files",
    ),
    StoreKind("", "", ""),
)


def store_kind(url: str) -> StoreKind:
    """Return the kind of the store of a URL; without a remedy if it is unknown.

    Example:
        >>> store_kind("gs://lake/x.parquet").prefix
        'google_'
    """
    return next(kind for kind in _KINDS if re.match(kind.urls, url, re.IGNORECASE))


#: The address from which machines in all three clouds get credentials if the environment has none.
_METADATA_SERVICE = "169.254.169.254"

#: The errors of obstore if it cannot connect to a server, or gets no response in time.
_NO_RESPONSE = "error sending request"

_RETRY = "run again later, or pass storage_options={'deadline_seconds': ...} to wait longer"


class _Known(NamedTuple):
    """A failure that servers report in several ways.

    Attributes:
        pattern: A regular expression that matches obstore's message.
        remedy: What to do.
    """

    pattern: str
    reason: str
    remedy: str


#: The first match is used.
_KNOWN = (
    _Known(
        r"ExpiredToken|TokenRefreshRequired|token (has )?expired|AuthenticationFailed.*expired",
        "expired-credentials",
        "renew the credentials, such as the session token in AWS_SESSION_TOKEN",
    ),
    _Known(
        r"redirect without LOCATION|AuthorizationHeaderMalformed|PermanentRedirect|IllegalLocationConstraint",
        "wrong-region",
        "set AWS_REGION to the region of the bucket",
    ),
    _Known(r"RequestTimeTooSkewed", "wrong-clock", "correct the clock of this machine"),
    _Known(
        r"NoSuchBucket|ContainerNotFound",
        "no-such-bucket",
        "check the bucket in the URL, and the endpoint in the environment",
    ),
    _Known(
        r"code: 429|SlowDown|TooManyRequests|ServerBusy|RequestLimitExceeded",
        "throttled",
        _RETRY,
    ),
    _Known(r"code: (5\d\d|408)", "server-failed", _RETRY),
    _Known(r"TimedOut|operation timed out", "timed-out", _RETRY),
    # status 400, which obstore does not repeat
    _Known(r"<Code>RequestTimeout</Code>", "timed-out", "run again"),
    _Known(r"request or response body error", "connection-lost", _RETRY),
    _Known(
        r"Range request not supported|NotPartial|non-206|Received non-partial response",
        "no-range-requests",
        "this server cannot return parts of a file; download the file, or use a server with range requests",
    ),
    _Known(r"code: 412", "object-replaced", "the object was replaced during the request; run again"),
    _Known(r"code: 416", "range-refused", "open the object again"),
    _Known(r"Configuration key: ", "unknown-option", "check the names in storage_options"),
    _Known(
        r"object with invalid path",
        "invalid-key",
        "rename the object, because keys with an empty folder, . or .. are not supported",
    ),
)

#: The known failures whose remedies are settings.
_OF_SETTINGS = ("expired-credentials", "wrong-region", "no-such-bucket")


class StoreFailure(NamedTuple):
    """An error of obstore, described for users.

    Attributes:
        reason: A code in kebab case, as in `intarsia.errors.IntarsiaError`.
        message: The cause and the remedy, in one line.
    """

    reason: str
    message: str


@contextmanager
def object_errors(url: str) -> Iterator[None]:
    """Translate errors that obstore raises within the block.

    Args:
        url: The URL of the object or the folder.

    Raises:
        FileNotFoundError: If there is no such object.
        ObjectStoreError: If the store is unreachable, refuses access, or is unknown.
    """
    from obstore.exceptions import BaseError

    try:
        yield
    except IntarsiaError:
        raise
    except FileNotFoundError:
        raise FileNotFoundError(f"{url}: no such object or folder") from None
    except (BaseError, OSError, TypeError, ValueError, NotImplementedError) as error:
        # not chained, because most of obstore's text is a dump of internals
        reason, message = describe_failure(url, error)
        raise ObjectStoreError(message, reason=reason, path=url) from None


def is_range_refused(error: Exception) -> bool:
    """Return whether an error probably means that a byte range is outside the object.

    The wording differs between stores, and a URL may contain the same words, so callers must verify it.

    Example:
        >>> is_range_refused(OSError("Server returned non-2xx status code: 416 Range Not Satisfiable"))
        True
    """
    return re.search(r"\brange\b|\b416\b", _first_line(error), re.IGNORECASE) is not None


def describe_failure(url: str, error: Exception) -> StoreFailure:
    """Describe an error of obstore by its cause and a remedy, in one line.

    Example:
        >>> describe_failure("az://lake/x.parquet", OSError("no account")).message[:49]
        'no account; set AZURE_STORAGE_ACCOUNT_NAME and AZ'
        >>> describe_failure("s3://lake//x.parquet", ValueError("empty path segment"))
        StoreFailure(reason='invalid-url', message='empty path segment')
        >>> describe_failure("s3://lake/x", OSError("status code: 503 Busy: <Code>SlowDown</Code>")).reason
        'throttled'
    """
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    is_denied = isinstance(error, (PermissionDeniedError, UnauthenticatedError))
    reason = "access-denied" if is_denied else "store-failed"
    dump = str(error)
    text = dump.strip().partition("\n\nDebug source:")[0]
    cause = re.sub(r"^Generic \w+ error: ", "", _first_line(error)) or type(error).__name__
    kind = store_kind(url)
    # the options of a job of Spark, which are not in the environment
    is_of_spark = any(url.startswith(f"{store}/") for store in current_options())
    of_spark = (
        f"the job has Spark's settings {kind.hadoop}… for this store; check them, and the rights they give"
    )
    remedy = of_spark if is_of_spark else kind.remedy
    if cause.startswith("Unable to recognise URL"):
        if remedy:
            return StoreFailure(
                "no-bucket", "the URL has no bucket; write it as in s3://bucket/folder/x.parquet"
            )
        return StoreFailure(
            "unknown-store",
            "this kind of store is not supported; use s3://, gs://, az://, abfss://, https:// or http://, or "
            "the local path of a mounted store or of a copy",
        )
    # the whole dump, because only its end says that an attempt timed out
    known = next((one for one in _KNOWN if re.search(one.pattern, dump)), None)
    if isinstance(error, ValueError):  # the URL, or the path in it, cannot be parsed
        reason, remedy = "invalid-url", ""
    if isinstance(error, TypeError):
        reason, remedy = "invalid-option", "check the values in storage_options"
    if _METADATA_SERVICE in cause:
        reason = "no-credentials"
        cause = "neither the environment nor the machine has credentials"
    elif known is not None:
        reason = known.reason
        remedy = remedy if is_of_spark and reason in _OF_SETTINGS else known.remedy
    elif _NO_RESPONSE in cause:
        reason = "no-connection"
        if not is_of_spark:
            remedy = (
                "check the URL, the network and, for a self-hosted store, the endpoint in the environment"
            )
    cause = _with_status(text) or re.sub(r", max_retries: \d+, retry_timeout: \S+ ?", "", cause)
    cause = cut(cause, MAX_CAUSE_CHARS)
    return StoreFailure(reason, f"{cause}; {remedy}" if remedy else cause)


def _with_status(text: str) -> str | None:
    """Return the status, the error code and the number of retries of a response; None without a status."""
    status = re.search(r"status code: (\d{3}[A-Za-z ]*)", text)
    if status is None:
        return None
    code, retries = re.search(r"<Code>(\w+)</Code>", text), re.search(r"after \d+ retries", text)
    parts = [f"status {status[1].strip()}"]
    parts += [f"({code[1]})"] if code else []
    parts += [retries[0]] if retries else []
    return " ".join(parts)


def _first_line(error: Exception) -> str:
    """Return the first line of the message of an error."""
    return str(error).strip().partition("\n")[0]


@contextmanager
def offered_options(options: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Use options for the stores that are found within the block, instead of the environment.

    Args:
        options: The options of each store by its URL, such as ``s3://bucket``.
    """
    token = _OFFERED.set(options)
    try:
        yield
    finally:
        _OFFERED.reset(token)


def current_options() -> Mapping[str, Mapping[str, Any]]:
    """Return the options of `offered_options` in this block."""
    return _OFFERED.get() or {}
