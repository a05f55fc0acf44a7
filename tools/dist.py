"""Build the wheel and the source distribution in ``dist/``, and try the wheel: ``make dist``.

The trial installs the wheel with its dependencies into an empty environment, indexes a file there, and
queries it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]

TRIAL = """
import sys, tempfile
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
import intarsia as ia

assert sys.prefix in ia.__file__, ia.__file__
path = Path(tempfile.mkdtemp()) / "cities.parquet"
pq.write_table(pa.table({"city": ["Bern", "Basel"] * 5000, "visitors": range(10_000)}), path)
before = path.read_bytes()
ia.attach(path, [ia.PageIndex(), ia.Bloom("city"), ia.Distinct("city")])
assert ia.open(path).scan("visitors = 7 AND city = 'Basel'").to_arrow().num_rows == 1
assert ia.verify(path).ok
ia.detach(path)
assert path.read_bytes() == before
"""


def build(folder: Path) -> list[Path]:
    """Build both distributions.

    Args:
        folder: Where to write them.

    Returns:
        The source distribution and the wheel.
    """
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return [
        max(folder.glob(pattern), key=lambda path: path.stat().st_mtime) for pattern in ("*.tar.gz", "*.whl")
    ]


def try_wheel(wheel: Path, environment: Path, *, site_packages: Path | None = None) -> str:
    """Install a wheel into a new environment, and index and query a file with it.

    Args:
        wheel: The wheel.
        environment: The folder of the new environment.
        site_packages: A folder with the dependencies and pip; None to install them.

    Returns:
        What ``intarsia --version`` prints.

    Raises:
        subprocess.CalledProcessError: If the installation or the trial fails.
    """
    venv.create(environment, with_pip=site_packages is None)
    python = environment / "bin" / "python"
    options = []
    if site_packages is not None:
        options = ["--no-deps"]
        # pth files in that folder, such as those of editable installations, are not followed
        found = next(environment.glob("lib/python*/site-packages"))
        (found / "dependencies.pth").write_text(f"{site_packages}\n", encoding="utf-8")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options, wheel]
    subprocess.run(install, check=True)
    subprocess.run([python, "-I", "-c", TRIAL], check=True)
    return subprocess.run(
        [environment / "bin" / "intarsia", "--version"], check=True, capture_output=True, text=True
    ).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.dist", description="Build and try the distributions."
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where to write them")
    for path in (built := build(parser.parse_args().folder.resolve())):
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory(prefix="intarsia-dist-") as folder:
        environment = Path(folder) / "environment"
        version = try_wheel(built[1], environment)
        size = sum(path.stat().st_size for path in environment.rglob("*") if path.is_file())
    print(f"{version} works in an empty environment of {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
