"""Libraries that Intarsia does not depend on: their imports, errors, and names of options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from intarsia.errors import CorruptFileError, IntarsiaError, ObjectStoreError, UnsupportedFeatureError
from intarsia.storage import StorageOptions


def import_for(method: str, name: str) -> Any:
    """Return a library.

    Args:
        method: The name of the method that needs it.
        name: The name of the library.

    Raises:
        ModuleNotFoundError: If it is not installed; the message says how to install it.

    Example:
        >>> import_for("to_json", "json").__name__
        'json'
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{method}() needs {name}, which is not installed; install it (pip install {name}), or use "
            "to_arrow()",
            name=error.name,
        ) from error


def import_extra(feature: str, name: str, extra: str) -> Any:
    """Return a library that an extra of the package installs.

    Args:
        feature: The feature that needs it, in words.
        name: The name of the library.
        extra: The name of the extra.

    Raises:
        UnsupportedFeatureError: If it is not installed; the message says how to install it.

    Example:
        >>> import_extra("JSON", "json", "json").__name__
        'json'
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise UnsupportedFeatureError(
            f"{feature} need {error.name}, which is not installed; install it (pip install "
            f"'intarsia[{extra}]')",
            reason="library-not-installed",
        ) from error


@contextmanager
def translated_errors(library: str, part: str, path: str, reason: str) -> Iterator[None]:
    """Translate every error within the block that is not one of Intarsia.

    The libraries raise exceptions of their own, of pydantic, of pyarrow and of Python.

    Args:
        library: The library.
        part: What it reads, in words.
        path: The table or the file.
        reason: The code for bytes that it cannot read.

    Raises:
        UnsupportedFeatureError: If the library does not implement a feature.
        ObjectStoreError: If a file cannot be reached.
        CorruptFileError: Otherwise, and if a file is missing.
    """
    try:
        yield
    except (IntarsiaError, MemoryError):
        raise
    except (NotImplementedError, ImportError) as error:
        raise UnsupportedFeatureError(
            f"{library} does not support {part}: {_cause(error)}; read it with the engine that wrote it",
            reason="unsupported-by-library",
            path=path,
        ) from error
    except Exception as error:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise ObjectStoreError(f"{path}: {_cause(error)}", reason="store-failed", path=path) from error
        raise CorruptFileError(
            f"{library} cannot read {part}: {_cause(error)}; if another engine can, update {library}",
            reason=reason,
            path=path,
        ) from error


def _cause(error: Any) -> str:
    """Return the message of an error in one line."""
    if type(error).__module__.startswith("pydantic"):
        first = error.errors()[0]
        return ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])
    # deltalake adds colors and a backtrace
    text = re.sub(r"\x1b\[\d*m", "", str(error).partition("\n")[0]).replace(" ↳ ", ": ")
    return text or type(error).__name__


#: Options of deltalake that concern writing, or its own requests.
_OF_DELTALAKE = ("aws_s3_", "delta_", "dynamo", "aws_copy_if_not_exists", "copy_if_not_exists", "max_retries")

#: Properties of Iceberg catalogs, and obstore's names for them.
_OF_ICEBERG = {
    "s3.endpoint": "aws_endpoint",
    "s3.region": "aws_region",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_token",
    "adls.tenant-id": "azure_storage_tenant_id",
    "adls.client-id": "azure_storage_client_id",
    "adls.client-secret": "azure_storage_client_secret",
}

#: The schemes of URLs in Azure.
_OF_AZURE = ("abfs", "abfss", "wasb", "wasbs")


def delta_options(options: Mapping[str, str] | None) -> StorageOptions | None:
    """Return the options of a ``DeltaTable`` that reading files needs; None if there are none.

    Example:
        >>> delta_options({"AWS_REGION": "eu-west-1", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"})
        {'aws_region': 'eu-west-1'}
    """
    found = {name.lower(): value for name, value in (options or {}).items()}
    return {name: value for name, value in found.items() if not name.startswith(_OF_DELTALAKE)} or None


def iceberg_options(location: str, properties: Mapping[str, Any]) -> StorageOptions | None:
    """Return the options of the store of an Iceberg table; None if they are those of the environment.

    Args:
        location: The location of the table.
        properties: The properties of its catalog, in which the names of `pyiceberg` are looked up.

    Example:
        >>> found = iceberg_options("s3://lake/t", {"s3.endpoint": "http://localhost:9000", "uri": "sqlite://"})
        >>> found["aws_endpoint"], found["allow_http"]
        ('http://localhost:9000', 'true')
    """
    scheme = location.partition("://")[0]
    prefix = "s3." if scheme in ("s3", "s3a", "s3n") else "adls." if scheme in _OF_AZURE else "none"
    found = {
        ours: str(properties[theirs])
        for theirs, ours in _OF_ICEBERG.items()
        if theirs.startswith(prefix) and properties.get(theirs)
    }
    if found.get("aws_endpoint", "").startswith("http://"):
        found["allow_http"] = "true"
    return found or None
