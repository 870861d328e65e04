"""Build the compiled kernels; every one is optional and has a twin in plain Python.

A machine without a C compiler installs Roquet all the same: `optional=True` turns a failed build
into a warning, and the twin is used.
"""

from pathlib import Path

from setuptools import Extension, setup

KERNELS = sorted(Path("src").rglob("_*_c.pyx"))


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    found = [
        Extension(".".join(path.relative_to("src").with_suffix("").parts), [str(path)], optional=True)
        for path in KERNELS
    ]
    return cythonize(found, language_level=3) if found else []


setup(ext_modules=extensions())
