"""The code that layers run: costs that were measured, and checkpoints, belong to it."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import os
import pathlib
import sys
import sysconfig
import types
from collections.abc import Iterable
from typing import Any

import torch

_PATHS = sysconfig.get_paths()
_STANDARD = tuple(os.path.realpath(_PATHS[name]) + os.sep for name in ("stdlib", "platstdlib"))
_TORCH = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__))) + os.sep  # site-packages, wherever it is
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


def versions() -> str:
    """Versions of what runs the caller's code."""
    return f"Python {sys.version.split()[0]}, torch {torch.__version__}"


def digest_of(users: Iterable[Any]) -> str:
    """Digest of the files of the modules that define these objects (classes, functions), and of all that those
    modules import, less the standard library and what is installed in site-packages."""
    digests: dict[str, str] = {}
    seen: set[str] = set()
    waiting = [name for user in users for name in _modules_of(user)]
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        if name in seen or module is None:
            continue
        seen.add(name)
        file = getattr(module, "__file__", None)
        if file is not None and _is_users(file):
            with open(file, "rb") as content:
                source = content.read()
            digests[name] = hashlib.blake2b(source, digest_size=16).hexdigest()
            waiting.extend(_imports_of(source, module) if file.endswith(".py") else ())
        elif file is None and name == "__main__":  # of a notebook
            values = [value for _, value in sorted(vars(module).items())]
            digests[name] = _text_digest(*(_source_of(value) for value in values if _is_of(value, name)))
            waiting.extend(other for value in values for other in _modules_of(value))
    return _text_digest(versions(), *(f"{name} {digest}" for name, digest in sorted(digests.items())))


def digest_of_texts(texts: Iterable[str]) -> str:
    return _text_digest(*texts)


def _modules_of(value: Any) -> list[str]:
    """Names of the modules that a value comes from."""
    if isinstance(value, types.ModuleType):
        return [value.__name__]
    if isinstance(value, functools.partial):
        return _modules_of(value.func)
    name = getattr(value, "__module__", None)
    return [name] if isinstance(name, str) else []


def _imports_of(source: bytes, module: types.ModuleType) -> list[str]:
    """Names that import statements of this source may mean."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            start = importlib.util.resolve_name(relative, module.__package__) if node.level else relative
            names.extend([start, *(f"{start}.{alias.name}" for alias in node.names)])
    return names


def _is_users(file: str) -> bool:
    path = os.path.abspath(file)
    is_installed = "site-packages" in path.split(os.sep) or "dist-packages" in path.split(os.sep)
    is_installed = is_installed or path.startswith((_TORCH, _OWN, *_folders_of_packages(tuple(sys.path))))
    return not is_installed and not os.path.realpath(file).startswith(_STANDARD)


@functools.lru_cache(maxsize=1)
def _folders_of_packages(places: tuple[str, ...]) -> tuple[str, ...]:
    """Folders that an installer has put packages into (pip --target)."""
    return tuple(os.path.abspath(place) + os.sep for place in places if any(pathlib.Path(place or ".").glob("*.dist-info")))


def _is_of(value: Any, module: str) -> bool:
    return isinstance(value, (type, types.FunctionType)) and value.__module__ == module


def _source_of(value: Any) -> str:
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return repr(value)


def _text_digest(*texts: str) -> str:
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).hexdigest()
