"""An S3 server on 127.0.0.1: moto."""

from __future__ import annotations

from tests.object_stores.store_server import BUCKET, StoreServer

REGION = "us-east-1"

#: The secret key of Spark, which no message may contain.
SECRET = "a secret that must not be seen"


class S3Server(StoreServer):
    """A running server with the protocol of S3."""

    def __init__(self):
        from moto.moto_server.werkzeug_app import create_backend_app

        # one service: to find that of a request, moto lists its modules, a quarter of the time of a request
        super().__init__(create_backend_app("s3"))

    @property
    def environment(self):
        """The variables with which obstore finds the server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": REGION,
        }

    def reset(self):
        """Make an empty bucket, and stop injecting faults and delays."""
        from moto.s3.models import s3_backends

        super().reset()
        backend = self.backend
        for account in s3_backends.values():
            account["aws"].reset()
        backend.create_bucket(BUCKET, REGION)

    @property
    def backend(self):
        """The state of moto."""
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]

    def put(self, key, data):
        """Put an object without a request."""
        self.backend.put_object(BUCKET, key, data)

    def content(self, key):
        """Return the bytes of an object without a request."""
        return self.backend.get_object(BUCKET, key).value

    def unfinished_uploads(self):
        """Return the multipart uploads that were neither completed nor aborted."""
        return list(self.backend.buckets[BUCKET].multiparts)

    def list_keys(self):
        """Return the keys of all objects without a request."""
        return sorted(self.backend.buckets[BUCKET].keys)


def s3a_settings(server, bucket=""):
    """Return settings of Spark with which it reads from the server."""
    prefix = f"fs.s3a.bucket.{bucket}." if bucket else "fs.s3a."
    values = {
        "endpoint": server.url,
        "endpoint.region": REGION,
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "access.key": "testing",
        "secret.key": SECRET,
        "attempts.maximum": "1",
        "retry.limit": "1",
        "audit.enabled": "false",
        "input.stream.type": "classic",
    }
    return {f"{prefix}{key}": value for key, value in values.items()} | {
        "fs.s3a.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"
    }
