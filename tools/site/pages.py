"""The pages of the site: the documents of the repository, with links that work beside each other."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

#: Documents outside ``docs/``, and their names on the site.
OTHER_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "clients/js/README.md": "javascript.md",
    "examples/browser/README.md": "browser.md",
    "tests/conformance/README.md": "conformance.md",
}
_LINK = re.compile(r"(\]\(|(?:src|srcset|href)=\")([^)\"#\s]+)")
_CODE = re.compile(r"^```.*?^```$|``.+?``|`[^`\n]+`", re.DOTALL | re.MULTILINE)


class PageError(Exception):
    """A document with a link that leads nowhere."""


def copy_pages(root: Path, pages: Path) -> None:
    """Copy the documents, and the files that they link to, into one folder.

    Args:
        root: The repository.
        pages: The folder to fill.

    Raises:
        PageError: If a document links to a file that does not exist.
    """
    documents = {root / name: target for name, target in OTHER_PAGES.items() if (root / name).exists()}
    documents |= {path: path.name for path in sorted((root / "docs").glob("*.md"))}
    for source, name in documents.items():
        text = source.read_text(encoding="utf-8")
        (pages / name).write_text(_relinked(text, source, root, documents, pages), encoding="utf-8")


def _relinked(text: str, source: Path, root: Path, documents: dict[Path, str], pages: Path) -> str:
    def relink(match: re.Match[str]) -> str:
        opening, link = match.groups()
        if ":" in link:
            return match[0]
        linked = (source.parent / link).resolve()
        if linked in documents:
            return opening + documents[linked]
        if not linked.is_file() or root not in linked.parents:
            raise PageError(f"{source.relative_to(root)} links to {link}, which is no file of the repository")
        name = linked.relative_to(root / "docs" if root / "docs" in linked.parents else root)
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(linked, pages / name)
        return opening + name.as_posix()

    # links are rewritten, but not text in code that looks like one
    parts, position = [], 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(relink, text[position : code.start()]), code[0]]
        position = code.end()
    return "".join(parts) + _LINK.sub(relink, text[position:])
