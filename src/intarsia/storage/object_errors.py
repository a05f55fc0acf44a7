"""What obstore raises, as one line that names the URL, what failed, and what can be done about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from intarsia.errors import IntarsiaError, ObjectStoreError

#: What is shown of a cause, which may hold a server's whole answer.
MAX_CAUSE_CHARS = 240

#: By how a URL begins, what a store needs; the names are those that obstore reads.
_REMEDIES = {
    r"s3a?://|https?://[^/]*\.(amazonaws|cloudflarestorage)\.com": (
        "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION in the environment; for a store of your "
        "own AWS_ENDPOINT_URL, with AWS_ALLOW_HTTP=true where it is plain HTTP; for a public bucket "
        "AWS_SKIP_SIGNATURE=true"
    ),
    r"gs://": (
        "set GOOGLE_APPLICATION_CREDENTIALS in the environment to a file of credentials; for a public bucket "
        "GOOGLE_SKIP_SIGNATURE=true"
    ),
    r"(az|azure|adl|abfss?)://|https?://[^/]*\.(core\.windows\.net|fabric\.microsoft\.com)": (
        "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY in the environment, or in place of the "
        "key AZURE_STORAGE_SAS_TOKEN; for a public container AZURE_SKIP_SIGNATURE=true"
    ),
    r"https?://": (
        "see whether the server can be reached from here and lets anybody read; it lists folders only if it "
        "speaks WebDAV, so name the files"
    ),
}

#: Where machines of all three clouds ask for credentials of their own, if the environment has none.
_MACHINE_ITSELF = "169.254.169.254"


@contextmanager
def object_errors(url: str) -> Iterator[None]:
    """Within the block, what obstore raises is told in Intarsia's words.

    Args:
        url: The URL of the object or the folder.

    Raises:
        FileNotFoundError: If there is no such object.
        ObjectStoreError: If a store cannot be reached, refuses, or is not known.
    """
    from obstore.exceptions import BaseError

    try:
        yield
    except IntarsiaError:
        raise
    except FileNotFoundError:
        raise FileNotFoundError(f"{url}: no such object or folder") from None
    except (BaseError, OSError, ValueError, NotImplementedError) as error:
        # not chained: obstore's text goes on with a dump of its insides, and its first line is told
        raise ObjectStoreError(f"{url}: {what_failed(url, error)}") from None


def is_range_refused(error: Exception) -> bool:
    """Whether a store seems to say that a range of bytes lies outside of the object.

    Stores differ in words, and a URL may hold the same ones, so whoever asks has to make sure.

    Example:
        >>> is_range_refused(OSError("Server returned non-2xx status code: 416 Range Not Satisfiable"))
        True
    """
    return re.search(r"\brange\b|\b416\b", _first_line(error), re.IGNORECASE) is not None


def what_failed(url: str, error: Exception) -> str:
    """What an error of obstore says in its first line, and the remedy.

    Example:
        >>> what_failed("az://lake/x.parquet", OSError("no account"))[:49]
        'no account; set AZURE_STORAGE_ACCOUNT_NAME and AZ'
        >>> what_failed("s3://lake//x.parquet", ValueError("empty path segment"))
        'empty path segment'
    """
    cause = re.sub(r"^Generic \w+ error: ", "", _first_line(error)) or type(error).__name__
    remedy = next((text for start, text in _REMEDIES.items() if re.match(start, url, re.IGNORECASE)), "")
    if cause.startswith("Unable to recognise URL"):
        if remedy:
            return "this names no bucket; a URL is like s3://bucket/folder/x.parquet"
        return (
            "no store of this kind is known here: known are s3://, gs://, az://, abfss://, https:// and "
            "http://; a path where it is mounted, or a downloaded copy, can be read"
        )
    if isinstance(error, ValueError):  # the URL, or the path in it, cannot be parsed
        remedy = ""
    if _MACHINE_ITSELF in cause:
        cause = "no credentials were found in the environment, and this machine has none of its own"
    if len(cause) > MAX_CAUSE_CHARS:
        cause = cause[: MAX_CAUSE_CHARS - 1] + "…"
    return f"{cause}; {remedy}" if remedy else cause


def _first_line(error: Exception) -> str:
    """What an error says, without the dump of obstore's insides."""
    return str(error).strip().partition("\n")[0]
