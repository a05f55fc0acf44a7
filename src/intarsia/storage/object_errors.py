"""Errors of obstore, translated to one line with the URL, the cause and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from intarsia.errors import IntarsiaError, ObjectStoreError

#: The limit on a shown cause, which may contain the whole response of a server.
MAX_CAUSE_CHARS = 240

#: The settings that a store needs, by the beginning of its URL; obstore reads these variables.
_REMEDIES = {
    r"s3a?://|https?://[^/]*\.(amazonaws|cloudflarestorage)\.com": (
        "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION in the environment; for a self-hosted "
        "store also AWS_ENDPOINT_URL, and AWS_ALLOW_HTTP=true for plain HTTP; for a public bucket only "
        "AWS_SKIP_SIGNATURE=true"
    ),
    r"gs://": (
        "set GOOGLE_APPLICATION_CREDENTIALS in the environment to a credentials file; for a public bucket "
        "only GOOGLE_SKIP_SIGNATURE=true"
    ),
    r"(az|azure|adl|abfss?)://|https?://[^/]*\.(core\.windows\.net|fabric\.microsoft\.com)": (
        "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY in the environment, or "
        "AZURE_STORAGE_SAS_TOKEN instead of the key; for a public container AZURE_SKIP_SIGNATURE=true"
    ),
    r"https?://": (
        "check that the server is reachable and allows anonymous reads; it lists folders only if it supports "
        "WebDAV, so name the files"
    ),
}

#: The address from which machines in all three clouds get credentials if the environment has none.
_METADATA_SERVICE = "169.254.169.254"

#: What obstore reports if it cannot connect to a server.
_NO_RESPONSE = "error sending request"


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
    except (BaseError, OSError, ValueError, NotImplementedError) as error:
        # not chained, because after its first line obstore's text is a dump of internals
        reason, message = describe_failure(url, error)
        raise ObjectStoreError(f"{url}: {message}", reason=reason, path=url) from None


def is_range_refused(error: Exception) -> bool:
    """Whether an error seems to mean that a byte range is outside the object.

    The wording differs between stores, and a URL may contain the same words, so callers have to verify.

    Example:
        >>> is_range_refused(OSError("Server returned non-2xx status code: 416 Range Not Satisfiable"))
        True
    """
    return re.search(r"\brange\b|\b416\b", _first_line(error), re.IGNORECASE) is not None


def describe_failure(url: str, error: Exception) -> StoreFailure:
    """Describe an error of obstore by its first line and a remedy.

    Example:
        >>> describe_failure("az://lake/x.parquet", OSError("no account")).message[:49]
        'no account; set AZURE_STORAGE_ACCOUNT_NAME and AZ'
        >>> describe_failure("s3://lake//x.parquet", ValueError("empty path segment"))
        StoreFailure(reason='invalid-url', message='empty path segment')
    """
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    is_denied = isinstance(error, (PermissionDeniedError, UnauthenticatedError))
    reason = "access-denied" if is_denied else "store-failed"
    cause = re.sub(r"^Generic \w+ error: ", "", _first_line(error)) or type(error).__name__
    remedy = next((text for start, text in _REMEDIES.items() if re.match(start, url, re.IGNORECASE)), "")
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
    if isinstance(error, ValueError):  # the URL, or the path in it, cannot be parsed
        reason, remedy = "invalid-url", ""
    if _METADATA_SERVICE in cause:
        reason = "no-credentials"
        cause = "neither the environment nor the machine has credentials"
    elif _NO_RESPONSE in cause:
        cause = re.sub(r", max_retries: \d+, retry_timeout: \w+", "", cause)
        remedy = "check the URL, the network and, for a self-hosted store, the endpoint in the environment"
    if len(cause) > MAX_CAUSE_CHARS:
        cause = cause[: MAX_CAUSE_CHARS - 1] + "…"
    return StoreFailure(reason, f"{cause}; {remedy}" if remedy else cause)


def _first_line(error: Exception) -> str:
    """The message of an error, without obstore's dump of internals."""
    return str(error).strip().partition("\n")[0]
