"""Reference pages: public names with their docstrings, and the help texts of the command."""

from __future__ import annotations

import inspect
import io
import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

from griffe import Docstring, DocstringSectionKind

from intarsia.cli import main

MODULES = ("intarsia", "intarsia.indexes", "intarsia.spark", "intarsia.polars", "intarsia.testing")
#: Headings of the kinds of public names, in the order of a page.
GROUPS = ("Functions", "Classes", "Errors and warnings", "Types")
TABLES = {
    DocstringSectionKind.parameters: ("Argument", "Meaning"),
    DocstringSectionKind.attributes: ("Attribute", "Meaning"),
    DocstringSectionKind.raises: ("Raises", "Condition"),
}
_REFERENCE = re.compile(r"(?<!`)`((?:intarsia\.)?[A-Za-z_][\w.]*)`(?!`)")


class UndocumentedError(Exception):
    """A public name without a docstring."""


def write_reference(folder: Path) -> None:
    """Write one page per public module, and one page of help texts.

    Args:
        folder: The folder for the pages.

    Raises:
        UndocumentedError: If a public function, class, method or property has no docstring.
    """
    logging.getLogger("griffe").setLevel(logging.ERROR)  # it asks for types that the signature has
    pages = {name: "\n\n".join(_module_page(name)) for name in MODULES}
    # as a name is written: `intarsia.spark.index`, and without the module if it is `intarsia`
    anchors = {
        shown: f"{name}.md#{path}"
        for name, text in pages.items()
        for path in re.findall(r" \{ #(\S+) \}$", text, re.MULTILINE)
        for shown in ((path, path.removeprefix("intarsia.")) if name == "intarsia" else (path,))
    }
    for name, text in pages.items():
        linked = _REFERENCE.sub(
            lambda match: f"[{match[0]}]({anchors[match[1]]})" if match[1] in anchors else match[0], text
        )
        (folder / f"{name}.md").write_text(linked + "\n", encoding="utf-8")
    (folder / "command.md").write_text("\n\n".join(_help_texts()) + "\n", encoding="utf-8")


def _module_page(name: str) -> Iterator[str]:
    module = import_module(name)
    groups: dict[str, list[str]] = {group: [] for group in GROUPS}
    for public in sorted(module.__all__, key=str.lower):
        groups[_group_of(getattr(module, public))].append(public)
    yield f"# {name}"
    yield (inspect.getdoc(module) or "").partition("\n")[0]
    for group, names in groups.items():
        if names:
            yield f"## {group}"
        for public in names:
            yield from _entry(f"{name}.{public}", public, getattr(module, public))


def _group_of(value: Any) -> str:
    if inspect.isclass(value):
        return "Errors and warnings" if issubclass(value, BaseException) else "Classes"
    return "Functions" if callable(value) and hasattr(value, "__name__") else "Types"


def _entry(path: str, shown: str, value: Any) -> Iterator[str]:
    yield f"### {shown} {{ #{path} }}"
    if _group_of(value) == "Types":
        yield f"```python\n{shown} = {value}\n```".replace("intarsia.predicate.nodes.", "")
        return
    if not (inspect.isclass(value) and issubclass(value, BaseException)):
        yield f"```python\n{_signature(shown, value)}\n```"
    yield from _sections(path, value)
    if inspect.isclass(value):
        yield from _members(path, value)


def _members(path: str, owner: type) -> Iterator[str]:
    """Document the public methods and properties, but not those that a public base class documents."""
    documented = {name for base in owner.__mro__[1:] if _is_public(base) for name in dir(base)}
    for name in sorted(set(dir(owner)) - documented):
        value = inspect.getattr_static(owner, name)
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        if isinstance(value, property):
            code, shown = value.fget, f"{owner.__name__}.{name}"
        elif inspect.isfunction(value):
            code, shown = value, _signature(f"{owner.__name__}.{name}", value, is_method=True)
        else:
            continue
        if name.startswith("_") or not code or not code.__module__.startswith("intarsia"):
            continue
        yield f"#### {name} {{ #{path}.{name} }}"
        yield f"```python\n{shown}\n```"
        yield from _sections(f"{path}.{name}", value)


def _is_public(owner: type) -> bool:
    return any(getattr(import_module(module), owner.__name__, None) is owner for module in MODULES)


def _signature(shown: str, value: Any, *, is_method: bool = False) -> str:
    signature = inspect.signature(value)
    parameters = list(signature.parameters.values())[is_method:]
    text = f"{shown}{signature.replace(parameters=parameters)}"
    text = _unquoted(text)
    if len(text) <= 88:
        return text
    lines, keyword_only = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            lines.append("    *,")
        lines.append(f"    {_unquoted(str(parameter))},")
    _, arrow, result = text.rpartition(" -> ")
    return "\n".join([f"{shown}(", *lines, f"){arrow}{result}"])


def _unquoted(text: str) -> str:
    """Show annotations, which `from __future__ import annotations` makes strings, and no addresses."""
    return re.sub(r"<[\w.]+ [^<>]*(<\w+>)?[^<>]*>", "...", re.sub(r"(: |-> )'([^']*)'", r"\1\2", text))


def _sections(path: str, value: Any) -> Iterator[str]:
    text = inspect.getdoc(value)
    if not text:
        raise UndocumentedError(f"{path} is public and has no docstring")
    for section in Docstring(text, parser="google").parse(warn_unknown_params=False):
        if section.kind in TABLES:
            yield _table(TABLES[section.kind], section.value)
        elif section.kind in (DocstringSectionKind.returns, DocstringSectionKind.yields):
            word = section.kind.value.capitalize()
            yield f"**{word}** " + " ".join(item.description for item in section.value)
        elif section.kind is DocstringSectionKind.text:
            yield section.value
        elif section.title == "Example":
            yield "```pycon\n" + re.sub(r" *# doctest:.*", "", section.value.description) + "\n```"
        else:
            raise UndocumentedError(f"{path} has a section {section.title!r}, which the site does not show")


def _table(headings: tuple[str, str], items: Iterable[Any]) -> str:
    rows = [f"| {headings[0]} | {headings[1]} |", "|---|---|"]
    for item in items:
        name = getattr(item, "name", None) or item.annotation
        description = " ".join(item.description.split()).replace("|", "\\|")
        rows.append(f"| `{name}` | {description} |")
    return "\n".join(rows)


def _help_texts() -> Iterator[str]:
    yield "# Help texts of the command"
    yield "The output of `--help`. [Command line](../cli.md) explains the commands with examples."
    text = _help()
    yield f"```text\n{text}```"
    for command in re.findall(r"^  ([a-z-]+) ", text.partition("Commands:")[2], re.MULTILINE):
        yield f"## intarsia {command}"
        yield f"```text\n{_help(command)}```"


def _help(*command: str) -> str:
    output = io.StringIO()
    with mock.patch.dict(os.environ, COLUMNS="96", NO_COLOR="1", TERM="dumb"), redirect_stdout(output):
        main([*command, "--help"])
    return "\n".join(line.rstrip() for line in output.getvalue().strip().splitlines()) + "\n"
