"""The house rules that a machine can check; the direction of imports is import-linter's."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import intarsia

PACKAGE = Path(intarsia.__file__).parent
NAMES_THAT_SAY_NOTHING = re.compile(r"utils?|helpers?|managers?|common|core|misc|base_.*|.*_base")


def test_public_names_resolve():
    names = getattr(intarsia, "__all__", [])
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(intarsia, name)] == []


def test_module_names_say_something():
    modules = [path for path in PACKAGE.rglob("*") if path.suffix == ".py" or path.is_dir()]
    assert [str(path) for path in modules if NAMES_THAT_SAY_NOTHING.fullmatch(path.stem)] == []


def test_every_folder_is_a_package():
    """One without __init__.py would import, but import-linter and doctest would pass it by."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_import_loads_nothing_heavy():
    """What keeps `import intarsia` quick; how quick it is, `make bench` tells."""
    heavy = ["datasketches", "obstore", "pandas", "pyarrow.dataset", "pyspark", "rich", "sqlglot", "typer"]
    program = f"import sys, intarsia; print(*[name for name in {heavy} if name in sys.modules])"
    assert run_python(program).split() == []


def test_typed():
    assert (PACKAGE / "py.typed").is_file()


def test_every_module_imports():
    """Also the ones that no test reaches; extras are installed where tests run."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] == "__main__":
            continue
        importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


def run_python(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
