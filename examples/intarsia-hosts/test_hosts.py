import pyarrow as pa
from intarsia_hosts import Hosts

from intarsia.testing import IndexContract


class TestHosts(IndexContract):
    def index(self):
        return Hosts("url")

    def values(self):
        sites = [
            "https://example.org/",
            "https://example.org/a?b",
            "http://localhost:8000",
            "urn:isbn:1",
            None,
        ]
        return pa.array([site for site in sites for _ in range(5)])

    def prunes(self):
        return [
            "url = 'https://absent.example/'",
            "url IN ('https://example.org/a?b', 'ftp://nowhere')",
            "url LIKE 'http://localhost:8000/%'",
            "url LIKE 'https://example.org/%.html'",
        ]
