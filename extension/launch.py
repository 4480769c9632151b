"""Starts Remat's language server on the Python that runs this file; `--check` only says whether it can.

Every Python since 2.7 must be able to read this file: an old one is told apart by running it.
"""

import json
import os
import platform
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SERVER = os.path.join(ROOT, "server")
LIBRARIES = os.path.join(ROOT, "bundled")  # in a packaged extension; a checkout takes them from the environment
OLDEST = (3, 10)


def fault(strategy):
    """Why this Python cannot run the server, or None."""
    if sys.version_info < OLDEST:
        return "Python 3.10 or later is needed"
    if strategy == "fromEnvironment":
        return None if installed("remat") else "the package remat is not installed there (pip install remat)"
    if not os.path.isdir(LIBRARIES):
        return None if installed("pygls") else "this is a checkout and pygls is not installed there (npm run demo)"
    return None if native_library() else "the libraries that come with Remat do not fit it"


def installed(package):
    import importlib.util

    return importlib.util.find_spec(package) is not None


def native_library():
    """libcst is compiled once per Python: is there one that this Python would load?"""
    from importlib.machinery import EXTENSION_SUFFIXES

    folder = os.path.join(LIBRARIES, "libcst")
    return any(os.path.exists(os.path.join(folder, "native" + suffix)) for suffix in EXTENSION_SUFFIXES)


def user_packages():
    import site

    return site.getusersitepackages()


def check(strategy):
    facts = {
        "executable": sys.executable,
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "torch": any(os.path.isdir(os.path.join(folder, "torch")) for folder in sys.path + [user_packages()]),
        "fault": fault(strategy),
    }
    sys.stdout.write(json.dumps(facts) + "\n")


def serve(strategy, arguments):
    sys.path.pop(0)  # this file's own folder
    if strategy == "useBundled":
        sys.path[0:0] = [SERVER, LIBRARIES]
    sys.argv = ["remat lsp"] + arguments
    from remat.lsp import main

    main(arguments)


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        check(sys.argv[2])
    else:
        serve(sys.argv[1], sys.argv[2:])
