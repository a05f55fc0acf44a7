"""Check the HTML of the site: no link is broken, and no page loads anything from another host."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes whose targets a browser loads with the page.
LOADED = {"script": "src", "img": "src", "source": "srcset", "iframe": "src", "object": "data"}


class _Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(values.get("href", ""))
        if values.get(LOADED.get(tag, "")):
            self.loaded.append(values[LOADED[tag]])


def find_problems(html: Path) -> list[str]:
    """Return what is wrong with the pages, one sentence each.

    Args:
        html: The folder of the site.
    """
    pages = {path: _Page(path) for path in sorted(html.rglob("*.html"))}
    problems = []
    for path, page in pages.items():
        name = path.relative_to(html)
        hosts = [target for target in page.loaded if urlsplit(target).netloc]
        problems += [f"{name} loads {target} from another host" for target in hosts]
        # the page for missing addresses is shown at any of them, so its links begin at the host's root
        links = [] if name.name == "404.html" else page.links + page.loaded
        problems += [
            f"{name} links to {link}, which does not exist" for link in links if not _leads(link, path, pages)
        ]
    return problems


def _leads(link: str, path: Path, pages: Mapping[Path, _Page]) -> bool:
    url = urlsplit(link)
    if url.scheme or url.netloc:
        return True
    target = (path.parent / unquote(url.path)).resolve() if url.path else path
    if target.is_dir():
        target /= "index.html"
    if target in pages and url.fragment:
        return unquote(url.fragment) in pages[target].anchors
    return target.is_file()
