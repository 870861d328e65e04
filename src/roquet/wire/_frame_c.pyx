# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Cut frames out of a buffer: the compiled twin of `_frame_py`, which says what it must do.

Reads the header as clients really write it: the known members, ext fields from text to text, the usual
escapes. Whatever else comes (unknown members, escaped letters, numbers as ext fields, broken bytes) goes
to `decode_header`, and an impossible length to the twin, so that values and errors have one source.
Every read is checked against the end of the header before it is made.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_SetItem, PyDict_Size
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from roquet.wire import _frame_py
from roquet.wire.codes import LANGUAGES
from roquet.wire.header import EMPTY, EXT_FIELDS_MAX, FRAME_BYTES_MAX, HEADER_BYTES_MAX, Frame, decode_header
from roquet.wire.header import _LANGUAGE_CODES

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_alloc)(PyTypeObject*, Py_ssize_t)
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    void* PyUnicode_DATA(object text)

cdef extern from *:
    """
    #define ONES 0x0101010101010101ULL
    """
    const uint64_t ONES     # 1 in each of eight bytes

cdef enum:
    NAMES = 1024            # slots of the cache below; a power of two
    NAME_BYTES_MAX = 32     # longer names are not cached
    SCRATCH = 2048          # bytes of a text with escapes that fit on the stack

cdef int64_t LENGTH_MAX = FRAME_BYTES_MAX - 4
cdef uint32_t HEADER_MAX = HEADER_BYTES_MAX
cdef Py_ssize_t EXT_MAX = EXT_FIELDS_MAX
cdef int32_t OTHER = LANGUAGES.index("OTHER")
cdef int32_t LANGUAGES_MAX = len(LANGUAGES)

# What stands behind a backslash, and what it means; the rest are zeros.
cdef uint8_t[256] escapes
for _mark, _meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t'):
    escapes[_mark] = _meaning

# The last name seen in each slot: the same few names come with every request, and a text that is found
# here is neither allocated nor hashed again. A peer that sends others costs itself the cache, no memory.
cdef list names = [""] * NAMES

cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end


def split(data):
    """Return the whole frames at the start of `data` and how many bytes they take; see the twin."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return _split(data, <const uint8_t*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef tuple _split(object data, const uint8_t* start, Py_ssize_t size):
    cdef list frames = []
    cdef const uint8_t* at = start
    cdef const uint8_t* end = start + size
    cdef int32_t length
    cdef uint32_t header_size
    while end - at >= 4:
        length = _int32(at)
        if length < 4 or length > LENGTH_MAX:
            return _frame_py.split(data)
        if end - at < 8:
            break
        header_size = <uint32_t>_int32(at + 4) & 0xFFFFFF
        if header_size > <uint32_t>(length - 4) or header_size > HEADER_MAX:
            return _frame_py.split(data)
        if end - at < 4 + <Py_ssize_t>length:
            break
        frames.append(_decode(at[4], at + 8, header_size, length - 4 - header_size))
        at += 4 + <Py_ssize_t>length
    return frames, at - start


cdef object _decode(uint8_t encoding, const uint8_t* header, Py_ssize_t header_size, Py_ssize_t body_size):
    """Return the frame by the fast way where that knows the form, else as the twin does."""
    cdef bytes body = PyBytes_FromStringAndSize(<const char*>header + header_size, body_size)
    cdef object frame = None
    try:
        if encoding == 0:
            frame = _decode_json(header, header + header_size, body)
        elif encoding == 1:
            frame = _decode_binary(header, header + header_size, body)
    except UnicodeDecodeError:
        pass
    if frame is None:
        return decode_header(encoding, PyBytes_FromStringAndSize(<const char*>header, header_size), body)
    return frame


cdef object _build(object code, object opaque, object flag, object ext, bytes body, object remark,
                   object language, object version, object encoding):
    """Return a Frame without going through its Python constructor."""
    cdef PyTypeObject* kind = <PyTypeObject*>Frame
    cdef object frame = kind.tp_alloc(kind, 9)
    _put(frame, 0, code)
    _put(frame, 1, opaque)
    _put(frame, 2, flag)
    _put(frame, 3, ext)
    _put(frame, 4, body)
    _put(frame, 5, remark)
    _put(frame, 6, language)
    _put(frame, 7, version)
    _put(frame, 8, encoding)
    return frame


cdef inline void _put(object frame, Py_ssize_t place, object value):
    Py_INCREF(value)
    PyTuple_SET_ITEM(frame, place, value)


cdef inline int32_t _int32(const uint8_t* at) noexcept:
    return <int32_t>(<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3])


cdef inline int16_t _int16(const uint8_t* at) noexcept:
    return <int16_t>(at[0] << 8 | at[1])


# --- the ROCKETMQ header; None means: let the twin look at it

cdef object _decode_binary(const uint8_t* header, const uint8_t* end, bytes body):
    cdef const uint8_t* at = header + 13
    cdef const uint8_t* ext_end
    cdef object remark, name, value
    cdef dict ext = {}
    cdef int32_t language, size
    if end - at < 8:
        return None
    size = _int32(at)
    at += 4
    if size < 0 or size > end - at - 4:
        return None
    remark = PyUnicode_DecodeUTF8(<const char*>at, size, NULL)
    at += size
    size = _int32(at)
    at += 4
    if size < 0 or size > end - at:
        return None
    ext_end = at + size
    while at < ext_end:
        if ext_end - at < 6:
            return None
        size = _int16(at)
        at += 2
        if size < 0 or size > ext_end - at - 4:
            return None
        name = _name(at, size)
        at += size
        size = _int32(at)
        at += 4
        if size < 0 or size > ext_end - at:
            return None
        value = PyUnicode_DecodeUTF8(<const char*>at, size, NULL)
        at += size
        if size:
            PyDict_SetItem(ext, name, value)
            if PyDict_Size(ext) > EXT_MAX:
                return None
    language = <int8_t>header[2]
    if language < 0 or language >= LANGUAGES_MAX:
        language = OTHER
    return _build(_int16(header), _int32(header + 5), _int32(header + 9), ext, body, remark, language,
                  _int16(header + 3), 1)


# --- the JSON header; None and False mean: let the twin look at it

cdef object _decode_json(const uint8_t* header, const uint8_t* end, bytes body):
    cdef Cursor cursor = Cursor(header, end)
    cdef const uint8_t* name
    cdef Py_ssize_t size
    cdef int32_t code = 0, opaque = 0, flag = 0, version = 0, language = 0
    cdef object ext = EMPTY, remark = ""
    cdef bint good
    if not _take(&cursor, b"{"):
        return None
    while True:
        _skip_space(&cursor)
        name = cursor.at + 1
        size = _plain_size(&cursor)
        if size < 0:
            return None
        cursor.at = name + size + 1
        if not _take(&cursor, b":"):
            return None
        _skip_space(&cursor)
        if size == 4 and memcmp(name, b"code", 4) == 0:
            good = _read_int(&cursor, &code)
        elif size == 4 and memcmp(name, b"flag", 4) == 0:
            good = _read_int(&cursor, &flag)
        elif size == 6 and memcmp(name, b"opaque", 6) == 0:
            good = _read_int(&cursor, &opaque)
        elif size == 7 and memcmp(name, b"version", 7) == 0:
            good = _read_int(&cursor, &version)
        elif size == 9 and memcmp(name, b"extFields", 9) == 0:
            ext = _read_ext(&cursor)
            good = ext is not None
        elif size == 8 and memcmp(name, b"language", 8) == 0:
            good = _read_language(&cursor, &language)
        elif size == 6 and memcmp(name, b"remark", 6) == 0:
            remark = _read_text(&cursor)
            good = remark is not None
        elif size == 23 and memcmp(name, b"serializeTypeCurrentRPC", 23) == 0:
            size = _plain_size(&cursor)
            good = size >= 0
            cursor.at += size + 2
        else:
            return None
        if not good:
            return None
        if _take(&cursor, b","):
            continue
        if not _take(&cursor, b"}"):
            return None
        _skip_space(&cursor)
        if cursor.at != cursor.end:
            return None
        return _build(code, opaque, flag, ext, body, remark, language, version, 0)


cdef inline void _skip_space(Cursor* cursor) noexcept:
    while cursor.at < cursor.end and cursor.at[0] in (9, 10, 13, 32):
        cursor.at += 1


cdef inline bint _take(Cursor* cursor, uint8_t wanted) noexcept:
    """Step over one character, and white space before it, when it is the wanted one."""
    _skip_space(cursor)
    if cursor.at < cursor.end and cursor.at[0] == wanted:
        cursor.at += 1
        return True
    return False


cdef inline Py_ssize_t _plain_size(Cursor* cursor) noexcept:
    """Return the length in bytes of the text at the cursor when it has no escapes, else -1."""
    cdef const uint8_t* at
    if cursor.at >= cursor.end or cursor.at[0] != 34:
        return -1
    at = _run_end(cursor.at + 1, cursor.end)
    return at - cursor.at - 1 if at < cursor.end and at[0] == 34 else -1


cdef inline bint _read_int(Cursor* cursor, int32_t* value) noexcept:
    """Read a number of 32 bits; at its end must stand what may follow a member."""
    cdef const uint8_t* at = cursor.at
    cdef const uint8_t* digits
    cdef int64_t read = 0
    cdef bint negative = at < cursor.end and at[0] == 45
    at += negative
    digits = at
    while at < cursor.end and 48 <= at[0] <= 57 and at - digits < 11:
        read = read * 10 + at[0] - 48
        at += 1
    if at == digits or at == cursor.end or (digits[0] == 48 and at - digits > 1):
        return False
    if at[0] != 44 and at[0] != 125 and at[0] > 32:
        return False
    read = -read if negative else read
    if read < -2147483648LL or read > 2147483647LL:
        return False
    value[0] = <int32_t>read
    cursor.at = at
    return True


cdef bint _read_language(Cursor* cursor, int32_t* language) except -1:
    cdef const uint8_t* name = cursor.at + 1
    cdef Py_ssize_t size = _plain_size(cursor)
    if size < 0:
        return False
    cursor.at = name + size + 1
    if size == 4 and memcmp(name, b"JAVA", 4) == 0:
        language[0] = 0
    else:
        language[0] = _LANGUAGE_CODES.get(_name(name, size).upper(), OTHER)
    return True


cdef object _read_ext(Cursor* cursor):
    """Return a dict of texts; None when there is anything else in it."""
    cdef dict ext = {}
    cdef object name, value
    cdef const uint8_t* start
    cdef Py_ssize_t size
    if not _take(cursor, b"{"):
        return None
    if _take(cursor, b"}"):
        return ext
    while True:
        _skip_space(cursor)
        start = cursor.at + 1
        size = _plain_size(cursor)
        if size >= 0:
            name = _name(start, size)
            cursor.at = start + size + 1
        else:
            name = _read_text(cursor)
            if name is None:
                return None
        if not _take(cursor, b":"):
            return None
        _skip_space(cursor)
        value = _read_text(cursor)
        if value is None:
            return None
        PyDict_SetItem(ext, name, value)
        if _take(cursor, b","):
            continue
        if not _take(cursor, b"}") or PyDict_Size(ext) > EXT_MAX:
            return None
        return ext


cdef object _name(const uint8_t* start, Py_ssize_t size):
    """Return a name, from the cache when it is there."""
    cdef str name
    cdef Py_ssize_t slot
    if size < 2 or size > NAME_BYTES_MAX:
        return PyUnicode_DecodeUTF8(<const char*>start, size, NULL)
    slot = (size * 131 + start[0] * 31 + start[size >> 1] * 17 + start[size - 1] * 7) & (NAMES - 1)
    name = <str>names[slot]
    if PyUnicode_GET_LENGTH(name) == size and memcmp(PyUnicode_DATA(name), start, size) == 0:
        return name
    name = PyUnicode_DecodeUTF8(<const char*>start, size, NULL)
    if PyUnicode_IS_COMPACT_ASCII(name):
        names[slot] = name
    return name


cdef object _read_text(Cursor* cursor):
    """Return the text at the cursor; None when it is not one that we read here."""
    cdef const uint8_t* start = cursor.at + 1
    cdef const uint8_t* at
    if cursor.at >= cursor.end or cursor.at[0] != 34:
        return None
    at = _run_end(start, cursor.end)
    if at == cursor.end:
        return None
    if at[0] == 34:
        cursor.at = at + 1
        return PyUnicode_DecodeUTF8(<const char*>start, at - start, NULL)
    return _read_escaped(cursor) if at[0] == 92 else None


cdef inline const uint8_t* _run_end(const uint8_t* at, const uint8_t* end) noexcept:
    """Return where a run of plain text ends: at a quote, a backslash, a control character or `end`."""
    # Eight bytes at a time: a byte below n borrows from its top bit, which was clear, when n is taken away.
    cdef uint64_t eight, quote, slash
    while end - at >= 8:
        memcpy(&eight, at, 8)
        quote = eight ^ ONES * 34
        slash = eight ^ ONES * 92
        if ((eight - ONES * 32) & ~eight | (quote - ONES) & ~quote | (slash - ONES) & ~slash) & ONES * 128:
            break
        at += 8
    while at < end and at[0] >= 32 and at[0] != 34 and at[0] != 92:
        at += 1
    return at


cdef object _read_escaped(Cursor* cursor):
    """Return a text with escapes in it, which never gets longer by undoing them."""
    cdef uint8_t scratch[SCRATCH]
    cdef uint8_t* room = scratch
    cdef Py_ssize_t size = cursor.end - cursor.at
    if size > SCRATCH:
        room = <uint8_t*>PyMem_Malloc(size)
        if room == NULL:
            raise MemoryError
    try:
        size = _unescape(cursor, room)
        if size < 0:
            return None
        return PyUnicode_DecodeUTF8(<const char*>room, size, NULL)
    finally:
        if room != scratch:
            PyMem_Free(room)


cdef Py_ssize_t _unescape(Cursor* cursor, uint8_t* room) noexcept:
    """Copy the text at the cursor as plain UTF-8 and return its length, or -1."""
    cdef const uint8_t* at = cursor.at + 1
    cdef const uint8_t* end = cursor.end
    cdef const uint8_t* run
    cdef uint8_t* out = room
    cdef uint8_t mark
    cdef int32_t point
    while True:
        run = at
        at = _run_end(run, end)
        memcpy(out, run, at - run)
        out += at - run
        if at == end:
            return -1
        mark = at[0]
        at += 1
        if mark == 34:
            cursor.at = at
            return out - room
        if mark < 32 or at == end:
            return -1
        if at[0] == 117:
            if end - at < 5:
                return -1
            point = _hex(at[1]) << 12 | _hex(at[2]) << 8 | _hex(at[3]) << 4 | _hex(at[4])
            if point > 127:
                return -1
            out[0] = <uint8_t>point
            at += 5
        else:
            out[0] = escapes[at[0]]
            if out[0] == 0:
                return -1
            at += 1
        out += 1


cdef inline int32_t _hex(uint8_t digit) noexcept:
    """Return the value of a hexadecimal digit; for anything else one that makes the whole too wide."""
    if 48 <= digit <= 57:
        return digit - 48
    if 97 <= digit <= 102:
        return digit - 87
    if 65 <= digit <= 70:
        return digit - 55
    return 0x10000
