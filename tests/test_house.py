"""The house rules that a machine can check; the direction of imports is import-linter's."""

import ast
import functools
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import intarsia
import intarsia.spark
from intarsia import indexes, testing

PACKAGE = Path(intarsia.__file__).parent
TESTS = Path(__file__).parent
SETTERS = ("setattr", "delattr", "__setattr__")
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
    """Names are imported on first use, and what few queries need by those; `make bench` measures it."""
    heavy = [
        "datasketches",
        "deltalake",
        "obstore",
        "pyiceberg",
        "numpy",
        "pandas",
        "pyarrow",
        "pyspark",
        "rich",
        "sqlglot",
        "click",
    ]
    program = "import sys, intarsia; {}; print(*[name for name in {} if name in sys.modules])"
    assert run_python(program.format("intarsia.IntarsiaError", heavy)).split() == []
    used = program.format("intarsia.open, intarsia.Table.scan", [*heavy, "pyarrow.dataset"])
    assert run_python(used).split() == ["numpy", "pyarrow"]


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


_CURSOR = "a cursor is moved by its parser"
_LIBRARY = "the interface of another library"
_METHOD = "a decorator adds methods to a class"
_PROCESS = "the state of the process"

#: Attributes and containers that are changed by others than the methods of their object, and why.
CHANGED_FROM_OUTSIDE = {
    ("__main__.py", "sys.path"): _PROCESS,
    ("cli/__init__.py", "os.environ"): _PROCESS,
    ("cli/__init__.py", "sys.meta_path"): _PROCESS,
    ("cli/app.py", "command.params"): _LIBRARY,
    ("cli/app.py", "ctx.find_root().obj.debug"): _LIBRARY,
    ("cli/terminal.py", "warnings.showwarning"): _PROCESS,
    ("embed/many.py", "_table(find_files(source, storage_options), root).lake_index"): (
        "`update` is a method of `TableLakeIndex`"
    ),
    ("format/row_groups.py", "reader.position"): _CURSOR,
    ("records.py", "made.__eq__"): _METHOD,
    ("records.py", "made.__hash__"): _METHOD,
    ("records.py", "made.__repr__"): _METHOD,
    ("predicate/sql_literals.py", "node.meta"): _LIBRARY,
    ("spark/sessions.py", "context.pythonExec"): _LIBRARY,
    ("spark/sessions.py", "os.environ"): _PROCESS,
    ("write/output.py", "self._arrow.is_open"): _LIBRARY,
}

#: Methods that change a list, a dict, a set or a deque.
CHANGE_CONTAINERS = {
    *("add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft"),
    *("insert", "intersection_update", "move_to_end", "pop", "popitem", "popleft", "remove", "reverse"),
    *("rotate", "setdefault", "sort", "subtract", "symmetric_difference_update", "update"),
}


def test_objects_are_changed_only_by_their_own_methods():
    """Data flows one way: no function assigns attributes of an object, or changes containers in them."""
    changed = {
        (path, f"{owner}.{attribute}")
        for path, nodes in parsed_modules()
        for owner, attribute in [*assigned_attributes(nodes), *changed_containers(nodes)]
        if owner not in ("self", "cls")
    }
    assert changed == set(CHANGED_FROM_OUTSIDE)


#: Names of several public classes, and why.
NAMES_OF_SEVERAL_CLASSES = {
    # the struct has Parquet's name, and the index that completes it is `ia.Statistics`
    "Statistics": ["embed/chunk_statistics.py", "format/structs.py"],
}


def test_no_two_public_classes_have_the_same_name():
    modules = {}
    for path, nodes in parsed_modules():
        for node in nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(path)
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == NAMES_OF_SEVERAL_CLASSES


def test_a_wrong_page_index_is_recovered_from_in_one_place():
    """Each of the two errors is caught once: where it is given a row group, and where work is done again.

    A dictionary page that cannot be decoded proves nothing about any row.
    """
    places = {"PageIndexMismatchError": [], "WrongPageIndexError": []}
    for path, nodes in parsed_modules():
        for node in nodes:
            if isinstance(node, ast.ExceptHandler) and node.type is not None:
                for name in ast.walk(node.type):
                    if isinstance(name, ast.Name) and name.id in places:
                        places[name.id].append(path)
    assert places == {
        "PageIndexMismatchError": ["read/run_columns.py"],
        "WrongPageIndexError": ["read/file_plan.py"],
    }


def test_one_place_decides_what_is_trusted():
    """Elsewhere the directory could be forgotten, and what Intarsia itself added would be doubted."""
    builders = {
        path
        for path, nodes in parsed_modules()
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Trust"
    }
    assert builders == {"file/metadata.py"}


def test_one_module_reads_the_headers_of_pages():
    """All others ask it for pages, so that each check of a header is made for all of them."""
    parsers = {"parse_page", "OutlineOfPage"}
    readers = {
        path
        for path, nodes in parsed_modules()
        for node in nodes
        if isinstance(node, ast.ImportFrom) and parsers & {name.name for name in node.names}
    }
    assert readers == {"format/pages.py"}


def test_only_indexes_and_predicates_are_dataclasses_of_the_standard_library():
    """They take five times as long to import, but are frozen at run time."""
    users = {
        path
        for path, nodes in parsed_modules()
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(name.name == "dataclass" for name in node.names)
    }
    others = {path for path in users if not path.startswith("indexes/")}
    assert others == {"predicate/nodes.py", "records.py"}


#: Patches of the package in tests that nothing else can replace, and why.
PATCHED_IN_TESTS = {
    # RE2 accepts every pattern of the permitted length, so its refusal needs a longer one
    ("predicate/test_bind.py", "intarsia.predicate.pattern.MAX_PATTERN_CHARACTERS"),
}

#: Methods of named tuples, which are public.
OF_NAMED_TUPLES = {"_replace", "_asdict", "_make", "_fields"}


def test_tests_use_the_public_interface():
    """They import no private name of the package, read no private attribute, and patch nothing of it."""
    package = [node for _, nodes in parsed_modules() for node in nodes]
    private = set(private_names(package)) - OF_NAMED_TUPLES
    found = set()
    for path in sorted(TESTS.rglob("*.py")):
        place = path.relative_to(TESTS).as_posix()
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imported = set(imported_names(nodes))
        found |= {(place, name) for name in imported if name.startswith("_")}
        others = private - set(private_names(nodes))
        for node in nodes:
            if isinstance(node, ast.Attribute) and node.attr in others:
                found.add((place, ast.unparse(node)))
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("setattr", "setitem"):
                target = ast.unparse(node.args[0]).strip("'\"")
                if target.partition(".")[0] in {*imported, "intarsia"}:
                    name = "" if isinstance(node.args[0], ast.Constant) else f".{ast.unparse(node.args[1])}"
                    found.add((place, target + name.replace("'", "")))
    assert found == PATCHED_IN_TESTS


def test_interfaces_of_index_authors_document_arguments_and_results():
    lacking = set()
    for interface in (getattr(indexes, name) for name in indexes.__all__):
        is_base = interface in (indexes.Index, indexes.OpenIndex)
        if not is_base and not getattr(interface, "_is_protocol", False):
            continue
        for name, method in inspect.getmembers(interface, inspect.isfunction):
            if name.startswith("_"):
                continue
            signature, text = inspect.signature(method), inspect.getdoc(method) or ""
            wanted = [f"    {argument}: " for argument in signature.parameters if argument != "self"]
            if signature.return_annotation != "None" and "Yields:\n" not in text:
                wanted.append("Returns:\n")
            lacking |= {(interface.__name__, name, want.strip()) for want in wanted if want not in text}
    assert lacking == set()


def test_public_functions_document_all_arguments_or_none():
    """Internal functions leave out arguments whose names and types say all."""
    lacking = set()
    modules = (intarsia, intarsia.spark, indexes, testing)
    for public in (getattr(module, name) for module in modules for name in module.__all__):
        functions = [public]
        if inspect.isclass(public):
            functions += [one for _, one in inspect.getmembers(public, inspect.isfunction) if one.__doc__]
        for function in filter(callable, functions):
            text = inspect.getdoc(function) or ""
            if "Args:\n" in text and not getattr(function, "__name__", "_").startswith("_"):
                names = [name for name in inspect.signature(function).parameters if name != "self"]
                lacking |= {(function.__name__, name) for name in names if f"{name}: " not in text}
    assert lacking == set()


def imported_names(nodes):
    """The names that a module imports from the package."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "intarsia":
            yield from (name.asname or name.name for name in node.names)
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.partition(".")[0] == "intarsia":
                    yield name.asname or "intarsia"


def private_names(nodes):
    """The private names that modules define: functions, constants, and attributes."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            name = node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        else:
            continue
        # notebooks call names such as _repr_html_
        if name.startswith("_") and not name.endswith("_"):
            yield name


@functools.cache
def parsed_modules():
    """The path of each module, and all nodes of its syntax tree."""
    return [
        (path.relative_to(PACKAGE).as_posix(), list(ast.walk(ast.parse(path.read_text()))))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


def assigned_attributes(nodes):
    """Owner and name of each attribute that is assigned, deleted or set by name."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield ast.unparse(node.value), node.attr
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in SETTERS:
            yield ast.unparse(node.args[0]), ast.unparse(node.args[1])


def changed_containers(nodes):
    """Owner and name of each attribute whose items are assigned or deleted, or whose methods change it."""
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            container = node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in CHANGE_CONTAINERS:
            container = node.func.value
        else:
            continue
        while isinstance(container, ast.Subscript):
            container = container.value
        if isinstance(container, ast.Attribute):
            yield ast.unparse(container.value), container.attr
