"""Servers on 127.0.0.1 with the requests to Google Cloud Storage and Azure Blob Storage of obstore.

No maintained emulator that pip installs has them: Azurite needs Node.js, and gcp-storage-emulator lacks the
XML API of Google, which obstore uses. The responses follow the references of the two services, also where
they differ from S3: Google compares generations, and the listings of Azure have ETags without quotes.

They also answer the reads of Hadoop's file systems: the JSON API of Google, which has no ETags, and the API
of Azure Data Lake Storage.
"""

from __future__ import annotations

import hashlib
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import formatdate
from urllib.parse import unquote
from xml.sax.saxutils import escape

from tests.object_stores.store_server import BUCKET, StoreServer

ACCOUNT = "account"

#: When the first object was written, in milliseconds since 1970; each version is 1,001 ms younger.
WRITTEN_MS = 1_700_000_000_000


@dataclass
class StoredObject:
    """An object in a bucket.

    Attributes:
        data: Its bytes.
        version: A number that grows with each write to the bucket.
        folder: Whether it represents a folder of an account with a hierarchical namespace.
    """

    data: bytes
    version: int
    folder: bool = False

    @property
    def modified(self):
        """When it was written, in seconds since 1970."""
        return (WRITTEN_MS + 1_001 * self.version) / 1000

    @property
    def iso_time(self):
        """When it was written, in milliseconds."""
        moment = datetime.fromtimestamp(self.modified, timezone.utc)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


@dataclass
class Answer:
    """A response: its status, headers and body."""

    status: str
    headers: dict = field(default_factory=dict)
    body: bytes = b""


class CloudServer(StoreServer):
    """A running server with one bucket.

    Attributes:
        objects: The objects by key.
        uploads: The parts of unfinished uploads, by the key or the number of the upload.
        page_objects: The number of objects in one response to a listing.
    """

    def __init__(self, bucket):
        self.objects, self.uploads = {}, {}
        self.page_objects = 1000
        self._versions = iter(range(1, 1 << 30))
        super().__init__(self._answer_request, bucket)

    def reset(self):
        """Remove all objects, and stop injecting faults and delays."""
        super().reset()
        self.objects, self.uploads = {}, {}
        self.page_objects = 1000

    def put(self, key, data):
        """Put an object without a request."""
        self.objects[key] = StoredObject(bytes(data), next(self._versions))
        return self.objects[key]

    def content(self, key):
        """Return the bytes of an object without a request."""
        return self.objects[key].data

    def list_keys(self):
        """Return the keys of all objects without a request."""
        return sorted(self.objects)

    def unfinished_uploads(self):
        """Return the uploads that were neither completed nor aborted."""
        return list(self.uploads)

    def _answer_request(self, environ, start_response):
        from werkzeug.wrappers import Request, Response

        request = Request(environ)
        request.get_data()
        path = request.path.lstrip("/")
        if path.startswith(self._bucket):
            answer = self.answer(request, path.removeprefix(self._bucket).lstrip("/"))
        else:
            answer = self.answer_other(request, path)
        response = Response(answer.body, answer.status, answer.headers)
        return response(environ, start_response)

    def answer_other(self, request, path):
        """Return the response to a request whose path does not begin with the bucket."""
        return self.missing_bucket()

    def read(self, request, key):
        """Return the response to HEAD and GET."""
        found = self.objects.get(key)
        if found is None:
            return self.missing()
        headers = {
            **self.version_headers(found),
            "Last-Modified": formatdate(found.modified, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        place = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
        if place is None:
            return Answer("200 OK", headers, found.data)
        start, stop = int(place[1]), min(int(place[2] or len(found.data)) + 1, len(found.data))
        if start >= len(found.data):
            return error("416 Range Not Satisfiable", "InvalidRange")
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(found.data)}"
        return Answer("206 Partial Content", headers, found.data[start:stop])

    def page(self, request, token):
        """Return the keys of one response to a listing, and the token of the next one."""
        prefix, token = request.args.get("prefix", ""), request.args.get(token, "")
        keys = [key for key in self.list_keys() if key.startswith(prefix) and key >= token]
        following = keys[self.page_objects] if len(keys) > self.page_objects else ""
        return keys[: self.page_objects], following


def error(status, code):
    return Answer(status, {"Content-Type": "application/xml"}, f"<Error><Code>{code}</Code></Error>".encode())


def xml(text):
    return Answer("200 OK", {"Content-Type": "application/xml"}, f'<?xml version="1.0"?>{text}'.encode())


def json_of(value):
    return Answer("200 OK", {"Content-Type": "application/json"}, json.dumps(value).encode())


class GoogleServer(CloudServer):
    """The XML API of Google Cloud Storage, and the reads of its JSON API."""

    def __init__(self):
        super().__init__(BUCKET)

    @property
    def environment(self):
        """The variables with which obstore finds the server: a key without a signature."""
        account = {
            "gcs_base_url": self.url,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account), "GOOGLE_ALLOW_HTTP": "true"}

    def version_headers(self, found):
        """Return the ETag, which depends on the content alone, and the generation."""
        return {"ETag": e_tag_of(found), "x-goog-generation": str(found.version)}

    def missing(self):
        return error("404 Not Found", "NoSuchKey")

    def missing_bucket(self):
        return error("404 Not Found", "NoSuchBucket")

    def answer(self, request, key):
        """Return the response to a request for a key; empty for the bucket."""
        upload = request.args.get("uploadId")
        if not key:
            return self._list(request)
        if request.method in ("HEAD", "GET"):
            return self.read(request, key)
        if request.method == "DELETE":
            found = self.objects.pop(key, None) if upload is None else self.uploads.pop(upload)
            return self.missing() if found is None else Answer("204 No Content")
        if request.method == "POST" and upload is None:
            upload = str(next(self._versions))
            self.uploads[upload] = {}
            return xml(
                f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>"
                "</InitiateMultipartUploadResult>"
            )
        if request.method == "POST":
            parts = self.uploads.pop(upload)
            order = [int(one.text) for one in ET.fromstring(request.data).iter("PartNumber")]
            found = self.put(key, b"".join(parts[number] for number in order))
            return xml(
                f"<CompleteMultipartUploadResult><ETag>{escape(e_tag_of(found))}</ETag>"
                "</CompleteMultipartUploadResult>"
            )
        if upload is not None:
            self.uploads[upload][int(request.args["partNumber"])] = request.data
            return Answer("200 OK", {"ETag": f'"{hashlib.md5(request.data).hexdigest()}"'})
        expected = request.headers.get("x-goog-if-generation-match")
        found = self.objects.get(key)
        if expected is not None and int(expected) != (0 if found is None else found.version):
            return error("412 Precondition Failed", "PreconditionFailed")
        return Answer("200 OK", self.version_headers(self.put(key, request.data)))

    def answer_other(self, request, path):
        """Return the response to a read of Hadoop's file system, which uses the JSON API."""
        found = re.fullmatch(rf"(?:download/)?storage/v1/b/{BUCKET}/o(?:/(.+))?", path)
        if found is None:
            return self.missing_bucket()
        if found[1] is None:
            return self._list_in_json(request)
        one = self.objects.get(found[1])
        generation = request.args.get("generation")
        if one is None or generation not in (None, str(one.version)):
            return Answer("404 Not Found", {"Content-Type": "application/json"}, b'{"error": {"code": 404}}')
        return (
            self.read(request, found[1])
            if request.args.get("alt") == "media"
            else json_of(self._meta(found[1]))
        )

    def _meta(self, key):
        one = self.objects[key]
        return {
            "bucket": BUCKET,
            "name": key,
            "size": str(len(one.data)),
            "generation": str(one.version),
            "metageneration": "1",
            "timeCreated": one.iso_time,
            "updated": one.iso_time,
        }

    def _list_in_json(self, request):
        prefix, delimiter = request.args.get("prefix", ""), request.args.get("delimiter")
        start, least = request.args.get("pageToken", ""), request.args.get("startOffset", "")
        most = int(request.args.get("maxResults", self.page_objects))
        items, prefixes, following = [], {}, None
        for key in self.list_keys():
            if not key.startswith(prefix) or key < max(start, least):
                continue
            inside = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if len(items) + len(prefixes) == most:
                following = key
                break
            if inside[1]:
                prefixes[prefix + inside[0] + inside[1]] = None
            else:
                items.append(self._meta(key))
        listed = {"kind": "storage#objects", "items": items, "prefixes": [*prefixes]}
        return json_of(listed | ({"nextPageToken": following} if following else {}))

    def _list(self, request):
        keys, following = self.page(request, "continuation-token")
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Generation>{self.objects[key].version}</Generation>"
            f"<LastModified>{self.objects[key].iso_time}</LastModified>"
            f"<ETag>{escape(e_tag_of(self.objects[key]))}</ETag>"
            f"<Size>{len(self.objects[key].data)}</Size></Contents>"
            for key in keys
        )
        token = f"<NextContinuationToken>{escape(following)}</NextContinuationToken>" if following else ""
        return xml(
            f"<ListBucketResult><Name>{BUCKET}</Name><IsTruncated>{str(bool(following)).lower()}"
            f"</IsTruncated>{token}{contents}</ListBucketResult>"
        )


def e_tag_of(found):
    """Google's ETag of an object."""
    return f'"{hashlib.md5(found.data).hexdigest()}"'


class AzureServer(CloudServer):
    """The REST API of Azure Blob Storage, and the reads of that of Azure Data Lake Storage."""

    def __init__(self):
        super().__init__(f"{ACCOUNT}/{BUCKET}")

    @property
    def environment(self):
        """The variables with which obstore finds the server."""
        return {
            "AZURE_STORAGE_ENDPOINT": f"{self.url}/{ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": "a2V5",
            "AZURE_ALLOW_HTTP": "true",
        }

    def put_folder(self, key):
        """Put the object of a folder, as accounts with a hierarchical namespace have them."""
        self.put(key, b"").folder = True

    def version_headers(self, found):
        """Return the ETag, and whether it is a folder."""
        folder = {"x-ms-meta-hdi_isfolder": "true"} if found.folder else {}
        return {"ETag": f'"0x{found.version:X}"', "x-ms-blob-type": "BlockBlob", **folder}

    def missing(self):
        return error("404 Not Found", "BlobNotFound")

    def missing_bucket(self):
        return error("404 Not Found", "ContainerNotFound")

    def answer(self, request, key):
        """Return the response to a request for a key; empty for the container."""
        if not request.headers.get("Authorization", "").startswith(f"SharedKey {ACCOUNT}:"):
            return error("403 Forbidden", "AuthenticationFailed")
        if "Azure Blob FS" in request.headers.get("User-Agent", ""):
            return self._answer_hadoop(request, key)
        part = request.args.get("comp")
        if part == "batch":
            return self._delete_many(request)
        if not key:
            return self._list(request)
        if request.method in ("HEAD", "GET"):
            return self.read(request, key)
        if part == "block":
            self.uploads.setdefault(key, {})[request.args["blockid"]] = request.data
            return Answer("201 Created")
        if part == "blocklist":
            blocks = self.uploads.pop(key)
            data = b"".join(blocks[one.text] for one in ET.fromstring(request.data))
            return Answer("201 Created", self.version_headers(self.put(key, data)))
        found = self.objects.get(key)
        if request.headers.get("If-None-Match") == "*" and found is not None:
            return error("409 Conflict", "BlobAlreadyExists")
        expected = request.headers.get("If-Match")
        if expected is not None and (found is None or expected != self.version_headers(found)["ETag"]):
            return error("412 Precondition Failed", "ConditionNotMet")
        return Answer("201 Created", self.version_headers(self.put(key, request.data)))

    def _answer_hadoop(self, request, key):
        """Return the response to a read of Hadoop's file system."""
        if request.args.get("resource") == "filesystem":
            return self._list_paths(request)
        found = self.objects.get(key)
        if found is None and any(other.startswith(f"{key}/") for other in self.objects):
            headers = {"x-ms-resource-type": "directory", "ETag": '"0x0"'}
            return Answer("200 OK", headers | {"Last-Modified": formatdate(WRITTEN_MS / 1000, usegmt=True)})
        expected = request.headers.get("If-Match")
        if found is not None and expected is not None and expected.strip('"') != f"0x{found.version:X}":
            return error("412 Precondition Failed", "ConditionNotMet")
        answer = self.read(request, key)
        answer.headers["x-ms-resource-type"] = "file"
        return answer

    def _list_paths(self, request):
        folder = request.args.get("directory", "").strip("/")
        prefix = f"{folder}/" if folder else ""
        paths = {}
        for key in self.list_keys():
            if not key.startswith(prefix):
                continue
            name, is_below, _ = key[len(prefix) :].partition("/")
            if is_below and request.args.get("recursive") != "true":
                paths[prefix + name] = {"name": prefix + name, "isDirectory": "true", "etag": "0x0"}
                paths[prefix + name]["lastModified"] = formatdate(WRITTEN_MS / 1000, usegmt=True)
                continue
            found = self.objects[key]
            paths[key] = {
                "name": key,
                "contentLength": str(len(found.data)),
                "lastModified": formatdate(found.modified, usegmt=True),
                "etag": f"0x{found.version:X}",
            }
        return json_of({"paths": [*paths.values()]}) if paths else error("404 Not Found", "PathNotFound")

    def _list(self, request):
        keys, following = self.page(request, "marker")
        blobs = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties>"
            f"<Last-Modified>{formatdate(self.objects[key].modified, usegmt=True)}</Last-Modified>"
            f"<Etag>0x{self.objects[key].version:X}</Etag>"
            f"<Content-Length>{len(self.objects[key].data)}</Content-Length>"
            f"<ResourceType>{'directory' if self.objects[key].folder else 'file'}</ResourceType>"
            "<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
            for key in keys
        )
        return xml(
            f'<EnumerationResults ContainerName="{BUCKET}"><Blobs>{blobs}</Blobs>'
            f"<NextMarker>{escape(following)}</NextMarker></EnumerationResults>"
        )

    def _delete_many(self, request):
        """Delete the blobs of a batch, which has a request for each of them."""
        parts = []
        for number, path in enumerate(re.findall(rb"DELETE (\S+) HTTP", request.data)):
            found = self.objects.pop(unquote(path.decode()).removeprefix(f"/{self._bucket}/"), None)
            status = "404 Not Found" if found is None else "202 Accepted"
            code = "x-ms-error-code: BlobNotFound\r\n" if found is None else ""
            parts.append(
                "--batch\r\nContent-Type: application/http\r\n"
                f"Content-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\n{code}\r\n\r\n"
            )
        body = "".join(parts) + "--batch--\r\n"
        return Answer("202 Accepted", {"Content-Type": "multipart/mixed; boundary=batch"}, body.encode())
