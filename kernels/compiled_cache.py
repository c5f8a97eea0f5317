"""Where compiled kernels are kept: beside their source, or in a folder of the user's own.

Who may not write beside the source would compile all kernels anew in every process, or could not
run at all where there is no home folder either.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

SETTING = "NUMBA_CACHE_DIR"


def use_own_folder(source: Path = Path(__file__).parent) -> None:
    """Have numba keep what it compiles in a folder of the user's, unless it may write here."""
    if os.environ.get(SETTING) or _is_writable(source / "product" / "__pycache__"):
        return
    for folder in _folders():
        if _is_ours(folder):
            os.environ[SETTING] = str(folder)
            return


def load_without_compiler() -> None:
    """Have numba load what it compiled before without its tables of all that it could compile.

    These take twice as long to load as all kernels, and compiling something loads them itself.
    """
    from numba.core import caching
    from numba.core.runtime.nrt import rtsys

    def load_overload(cache: Any, signature: Any, context: Any) -> Any:
        rtsys.initialize(context)  # arrays are allocated by it
        with cache._guard_against_spurious_io_errors():
            return cache._load_overload(signature, context)

    caching.Cache.load_overload = load_overload  # type: ignore[method-assign]
    _leave_bitcode_unread()
    _leave_modules_unloaded()


def _leave_bitcode_unread() -> None:
    """Have numba read a kernel's LLVM code only where another is compiled that calls it.

    A kernel that was compiled comes with it beside its machine code. Reading it takes longer than
    all else of loading, and a run that compiles nothing has no use for it.
    """
    binding: Any = import_module("llvmlite.binding")
    codegen_classes: Any = import_module("numba.core.codegen")
    common = codegen_classes.CPUCodeLibrary
    loaded = codegen_classes.JITCodeLibrary

    unserialize = common._unserialize.__func__
    to_link = common._get_module_for_linking
    pointer = loaded.get_pointer_to_function

    def _unserialize(cls: Any, codegen: Any, state: Any) -> Any:
        name, kind, data = state
        if kind != "object" or cls is not loaded:
            return unserialize(cls, codegen, state)
        machine_code, bitcode = data
        library = codegen.create_library(name)
        library.enable_object_caching()
        library._set_compiled_object(machine_code)
        library._unread = bitcode
        library._finalize_final_module()
        return library

    def _get_module_for_linking(library: Any) -> Any:
        unread = getattr(library, "_unread", None)
        if unread is not None:
            library._unread = None
            library._shared_module = binding.parse_bitcode(unread)
            library._codegen._engine._load_defined_symbols(library._shared_module)
        return to_link(library)

    def get_pointer_to_function(library: Any, name: str) -> Any:
        if getattr(library, "_unread", None) is None:
            return pointer(library, name)
        return library._codegen._engine.get_function_address(name)

    common._unserialize = classmethod(_unserialize)
    common._get_module_for_linking = _get_module_for_linking
    loaded.get_pointer_to_function = get_pointer_to_function


def _leave_modules_unloaded() -> None:
    """Have numba load none of its own modules for the names in them that compiled code never uses.

    Code that was made from a function of numba's comes with the module of that function.
    """
    environment: Any = import_module("numba.core.environment")
    rebuild = environment._rebuild_env

    def _rebuild_env(module: str, constants: Any, name: str) -> Any:
        if not module.startswith("numba.") or module in sys.modules:
            return rebuild(module, constants, name)
        found = environment.lookup_environment(name)
        if found is None:
            found = environment.Environment({"__name__": module})
            found.consts[:] = constants
            found.env_name = name
            environment.Environment._memo[name] = found
        return found

    environment._rebuild_env = _rebuild_env


def _folders() -> Iterator[Path]:
    with suppress(RuntimeError):  # there may be no home
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        yield Path(cache, "sheaf", "kernels")
    yield Path(tempfile.gettempdir(), f"sheaf-kernels-{os.getuid()}")


def _is_writable(folder: Path) -> bool:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(there, os.W_OK)


def _is_ours(folder: Path) -> bool:
    """Whether only this user can write to the folder, which is made: what is in it is run."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others
