# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Changes to a property text: the compiled twin of `_properties_py`, which says what it must do."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp, memcpy

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL


def edit_properties(bytes text not None, put, drop=()):
    """Return a property text with pairs at its end and others taken out; see the twin."""
    cdef list gone = [*put, *drop]
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text) + 1
    cdef Py_ssize_t part_size
    for name, value in put.items():
        PyUnicode_AsUTF8AndSize(name, &part_size)
        size += part_size + 2
        PyUnicode_AsUTF8AndSize(value, &part_size)
        size += part_size
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size)
    cdef char* out = PyBytes_AS_STRING(made)
    cdef char* to = _copy_kept(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), gone, out)
    for name, value in put.items():
        if name and value:
            to = _copy(to, name, 1)
            to = _copy(to, value, 2)
    return PyBytes_FromStringAndSize(out, to - out)


cdef char* _copy_kept(const char* at, Py_ssize_t size, list gone, char* to) except NULL:
    """Copy the pairs that are not gone, each with its end."""
    cdef const char* end = at + size
    cdef const char* stop
    cdef const char* middle
    while at < end:
        stop = <const char*>memchr(at, 2, end - at)
        if stop == NULL:
            stop = end
        middle = <const char*>memchr(at, 1, stop - at)
        if middle == NULL:
            middle = stop
        if stop > at and not _is_among(at, middle - at, gone):
            memcpy(to, at, stop - at)
            to += stop - at
            to[0] = 2
            to += 1
        at = stop + 1
    return to


cdef bint _is_among(const char* name, Py_ssize_t size, list names) except -1:
    cdef Py_ssize_t each_size
    cdef const char* data
    for each in names:
        data = PyUnicode_AsUTF8AndSize(each, &each_size)
        if each_size == size and memcmp(data, name, size) == 0:
            return True
    return False


cdef char* _copy(char* to, object text, char end) except NULL:
    cdef Py_ssize_t size
    cdef const char* data = PyUnicode_AsUTF8AndSize(text, &size)
    memcpy(to, data, size)
    to[size] = end
    return to + size + 1
