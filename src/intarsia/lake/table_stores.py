"""The names of the options of object stores in other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intarsia.storage import StorageOptions

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
