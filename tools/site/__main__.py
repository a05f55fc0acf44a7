"""Build the site: ``make site``, or ``python -m tools.site [--folder FOLDER]``.

The pages are the documents of the repository and the reference from docstrings and help texts. Zensical
makes HTML of them, which is then checked for broken links.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.site.check import find_problems
from tools.site.pages import copy_pages
from tools.site.reference import write_reference

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.site", description="Build the site.")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "site", help="where to build it")
    folder: Path = parser.parse_args().folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    (pages / "reference").mkdir(parents=True)
    copy_pages(ROOT, pages)
    write_reference(pages / "reference")
    for name, target in {"zensical.toml": folder, "site.css": pages}.items():
        shutil.copy(Path(__file__).with_name(name), target)
    subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--clean", "--strict"], cwd=folder, check=True
    )
    problems = [*_misplaced_pages(folder), *find_problems(folder / "html")]
    for problem in problems:
        print(problem, file=sys.stderr)
    html = folder / "html"
    print(f"{len(list(html.rglob('*.html')))} pages in {html}, {len(problems)} problems")
    return 1 if problems else 0


def _misplaced_pages(folder: Path) -> list[str]:
    """Return a problem for each page that is not in the navigation, and for each that is only there."""
    settings = (folder / "zensical.toml").read_text(encoding="utf-8")
    named = set(re.findall(r'= "([\w./-]+\.md)"', settings))
    pages = {path.relative_to(folder / "pages").as_posix() for path in (folder / "pages").rglob("*.md")}
    return [
        *(f"zensical.toml does not name {page}" for page in sorted(pages - named)),
        *(f"zensical.toml names {page}, which does not exist" for page in sorted(named - pages)),
    ]


if __name__ == "__main__":
    sys.exit(main())
