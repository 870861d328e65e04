# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Sends, many at a time: the compiled twin of `_lane_py`, which says what it must do.

Works on the texts of the ext fields in place; whatever it does not know at a glance ends the run, exactly
where the twin would end it. Only ASCII properties are regular.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from roquet.broker.core import _lane_py
from roquet.broker.core._lane_values import Run
from roquet.model.message import Draft
from roquet.wire.codes import VERSION

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_alloc)(PyTypeObject*, Py_ssize_t)
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    void* PyUnicode_DATA(object text)

cdef enum:
    NUMBER_CHARS_MAX = 18
    ANSWER_MAX = 1024       # bytes of one answer that are put together on the stack

cdef object KEY_A = "a"
cdef object KEY_B = "b"
cdef object KEY_C = "c"
cdef object KEY_D = "d"
cdef object KEY_E = "e"
cdef object KEY_F = "f"
cdef object KEY_G = "g"
cdef object KEY_H = "h"
cdef object KEY_I = "i"
cdef object KEY_J = "j"
cdef object KEY_M = "m"
cdef object ZERO = 0
cdef int64_t INT32_MAX = 2**31 - 1

cdef struct Span:
    const uint8_t* at
    Py_ssize_t size

# What a pass over the properties finds.
cdef struct Found:
    Span unique_key
    Span keys
    Span tags
    bint is_marked


# The terms as C reads them, made once for each set of terms.
cdef class Rules:
    cdef object terms
    cdef tuple odd
    cdef tuple marks
    cdef int64_t odd_flags
    cdef int64_t mark_flags
    cdef int64_t host_flags
    cdef bytes own
    cdef Py_ssize_t body_max
    cdef Py_ssize_t properties_max

    def __init__(self, terms):
        self.terms = terms
        self.odd = tuple(sorted(name.encode() for name in terms.odd_names))
        self.marks = tuple(sorted(name.encode() for name in terms.marks))
        self.odd_flags = terms.odd_flags
        self.mark_flags = terms.mark_flags
        self.host_flags = terms.host_flags
        self.own = terms.own_properties
        self.body_max = terms.body_bytes_max
        self.properties_max = terms.properties_bytes_max


cdef dict rules_seen = {}


cdef Rules _rules_of(object terms):
    cdef object key = <Py_ssize_t><void*>terms
    cdef Rules rules = rules_seen.get(key)
    if rules is None or rules.terms is not terms:
        if len(rules_seen) > 8:
            rules_seen.clear()
        rules = rules_seen[key] = Rules(terms)
    return rules


def drafts(frames, Py_ssize_t start, int code, topics, born, terms):
    """Return the drafts of the regular sends from `start` on; see the twin."""
    cdef list found = []
    cdef list marked = []
    cdef list all_frames = frames if type(frames) is list else list(frames)
    cdef Rules rules = _rules_of(terms)
    cdef Py_ssize_t index
    cdef object draft
    if type(topics) is not dict:
        return _lane_py.drafts(frames, start, code, topics, born, terms)
    for index in range(start, len(all_frames)):
        frame = all_frames[index]
        if <int>(<tuple>frame)[0] != code:
            break
        draft = _draft(<tuple>frame, <dict>topics, born, rules, marked, index - start)
        if draft is None:
            break
        found.append(draft)
    return Run(found, marked)


cdef object _draft(tuple frame, dict topics, object born, Rules rules, list marked, Py_ssize_t number):
    cdef object ext = frame[3]
    cdef bytes body = frame[4]
    cdef int64_t template_queues, queue_id, sys_flag, born_ms, flag
    cdef PyObject* item
    cdef object topic
    cdef object text
    cdef const uint8_t* data
    cdef Py_ssize_t size
    cdef Found found
    cdef bytes properties
    cdef char* out
    if type(ext) is not dict:
        return None
    item = PyDict_GetItem(<dict>ext, KEY_B)
    if item == NULL:
        return None
    topic = <object>item
    item = PyDict_GetItem(<dict>ext, KEY_I)
    if item == NULL:
        return None
    text = <object>item
    if PyDict_GetItem(<dict>ext, KEY_A) == NULL or PyDict_GetItem(<dict>ext, KEY_C) == NULL:
        return None
    if not _is(<dict>ext, KEY_M, b"false") or not _is(<dict>ext, KEY_J, b"0"):
        return None
    template_queues = _number(<dict>ext, KEY_D)
    queue_id = _number(<dict>ext, KEY_E)
    sys_flag = _number(<dict>ext, KEY_F)
    born_ms = _number(<dict>ext, KEY_G)
    flag = _number(<dict>ext, KEY_H)
    if template_queues < 0 or queue_id < 0 or sys_flag < 0 or born_ms < 0 or flag < 0:
        return None
    if template_queues > INT32_MAX or sys_flag > INT32_MAX or flag > INT32_MAX or sys_flag & rules.odd_flags:
        return None
    item = PyDict_GetItem(topics, topic)
    if item == NULL or queue_id >= <int64_t>(<object>item) or PyBytes_GET_SIZE(body) > rules.body_max:
        return None
    if type(text) is not str or not PyUnicode_IS_COMPACT_ASCII(text):
        return None
    data = <const uint8_t*>PyUnicode_DATA(text)
    size = PyUnicode_GET_LENGTH(text)
    if size > rules.properties_max or not _scan(data, size, rules, &found):
        return None
    if found.is_marked or sys_flag & rules.mark_flags:
        marked.append((number, _pairs(data, size)))
    properties = PyBytes_FromStringAndSize(NULL, size + PyBytes_GET_SIZE(rules.own))
    out = PyBytes_AS_STRING(properties)
    memcpy(out, data, size)
    memcpy(out + size, PyBytes_AS_STRING(rules.own), PyBytes_GET_SIZE(rules.own))
    return _build(topic, queue_id, body, properties, flag, sys_flag | rules.host_flags, born_ms, born,
                  _hash(found.tags), _keys(&found))


cdef object _build(object topic, int64_t queue_id, bytes body, bytes properties, int64_t flag, int64_t sys_flag,
                   int64_t born_ms, object born, int32_t tag_code, object keys):
    """Return a Draft without going through its Python constructor."""
    cdef PyTypeObject* kind = <PyTypeObject*>Draft
    cdef object draft = kind.tp_alloc(kind, 12)
    _put(draft, 0, topic)
    _put(draft, 1, queue_id)
    _put(draft, 2, body)
    _put(draft, 3, properties)
    _put(draft, 4, flag)
    _put(draft, 5, sys_flag)
    _put(draft, 6, born_ms)
    _put(draft, 7, born)
    _put(draft, 8, ZERO)
    _put(draft, 9, ZERO)
    _put(draft, 10, tag_code)
    _put(draft, 11, keys)
    return draft


cdef inline void _put(object target, Py_ssize_t index, object value):
    Py_INCREF(value)
    PyTuple_SET_ITEM(target, index, value)


cdef inline bint _is(dict ext, object name, bytes wanted):
    """Return whether a field is absent or says just this."""
    cdef PyObject* item = PyDict_GetItem(ext, name)
    cdef object text
    if item == NULL:
        return True
    text = <object>item
    if type(text) is not str or not PyUnicode_IS_COMPACT_ASCII(text):
        return False
    return (PyUnicode_GET_LENGTH(text) == PyBytes_GET_SIZE(wanted)
            and memcmp(PyUnicode_DATA(text), PyBytes_AS_STRING(wanted), PyBytes_GET_SIZE(wanted)) == 0)


cdef inline int64_t _number(dict ext, object name):
    """Return a plain number without a sign; -1 for anything else."""
    cdef PyObject* item = PyDict_GetItem(ext, name)
    cdef object text
    cdef const uint8_t* data
    cdef Py_ssize_t size, index
    cdef int64_t value = 0
    if item == NULL:
        return -1
    text = <object>item
    if type(text) is not str or not PyUnicode_IS_COMPACT_ASCII(text):
        return -1
    size = PyUnicode_GET_LENGTH(text)
    if size == 0 or size > NUMBER_CHARS_MAX:
        return -1
    data = <const uint8_t*>PyUnicode_DATA(text)
    for index in range(size):
        if data[index] < 48 or data[index] > 57:
            return -1
        value = value * 10 + (data[index] - 48)
    return value


cdef bint _scan(const uint8_t* data, Py_ssize_t size, Rules rules, Found* found):
    """Walk over `name 0x01 value 0x02 …`; False when a pair is irregular, odd or there twice."""
    cdef const uint8_t* at = data
    cdef const uint8_t* end = data + size
    cdef const uint8_t* stop
    cdef const uint8_t* middle
    cdef Py_ssize_t name_size
    found.unique_key.size = found.keys.size = found.tags.size = 0
    found.is_marked = False
    if size == 0 or data[size - 1] != 2:
        return False
    while at < end:
        stop = <const uint8_t*>memchr(at, 2, end - at)
        middle = <const uint8_t*>memchr(at, 1, stop - at)
        if middle == NULL or middle == at or middle + 1 == stop:
            return False
        if memchr(middle + 1, 1, stop - middle - 1) != NULL:
            return False
        name_size = middle - at
        if _is_among(at, name_size, rules.odd) or _is_repeated(data, at, name_size):
            return False
        if not found.is_marked and _is_among(at, name_size, rules.marks):
            found.is_marked = True
        if name_size == 8 and memcmp(at, b"UNIQ_KEY", 8) == 0:
            found.unique_key = Span(middle + 1, stop - middle - 1)
        elif name_size == 4 and memcmp(at, b"WAIT", 4) == 0:
            if stop - middle != 5 or memcmp(middle + 1, b"true", 4) != 0:
                return False
        elif name_size == 4 and memcmp(at, b"KEYS", 4) == 0:
            found.keys = Span(middle + 1, stop - middle - 1)
        elif name_size == 4 and memcmp(at, b"TAGS", 4) == 0:
            found.tags = Span(middle + 1, stop - middle - 1)
        at = stop + 1
    return found.unique_key.size > 0


cdef dict _pairs(const uint8_t* data, Py_ssize_t size):
    """Return the pairs of a text that was scanned."""
    cdef dict pairs = {}
    cdef const uint8_t* at = data
    cdef const uint8_t* end = data + size
    cdef const uint8_t* stop
    cdef const uint8_t* middle
    while at < end:
        middle = <const uint8_t*>memchr(at, 1, end - at)
        stop = <const uint8_t*>memchr(middle, 2, end - middle)
        name = PyUnicode_DecodeASCII(<const char*>at, middle - at, NULL)
        pairs[name] = PyUnicode_DecodeASCII(<const char*>middle + 1, stop - middle - 1, NULL)
        at = stop + 1
    return pairs


cdef inline bint _is_among(const uint8_t* name, Py_ssize_t size, tuple names):
    for each in names:
        if PyBytes_GET_SIZE(<bytes>each) == size and memcmp(PyBytes_AS_STRING(<bytes>each), name, size) == 0:
            return True
    return False


cdef bint _is_repeated(const uint8_t* data, const uint8_t* name, Py_ssize_t size):
    """Return whether the same name stands further to the front."""
    cdef const uint8_t* at = data
    cdef const uint8_t* middle
    while at < name:
        middle = <const uint8_t*>memchr(at, 1, name - at)
        if middle - at == size and memcmp(at, name, size) == 0:
            return True
        at = <const uint8_t*>memchr(middle, 2, name - middle) + 1
    return False


cdef inline int32_t _hash(Span text):
    """Return Java's hash of an ASCII text; 0 for none."""
    cdef uint32_t value = 0
    cdef Py_ssize_t index
    for index in range(text.size):
        value = 31 * value + text.at[index]
    return <int32_t>value


cdef inline bint _is_space(uint8_t letter) noexcept:
    return letter == 32 or 9 <= letter <= 13 or 28 <= letter <= 31


cdef tuple _keys(Found* found):
    """Return the words that the message is indexed under."""
    cdef list words = [PyUnicode_DecodeASCII(<const char*>found.unique_key.at, found.unique_key.size, NULL)]
    cdef const uint8_t* at = found.keys.at
    cdef const uint8_t* end
    cdef const uint8_t* begin
    if found.keys.size:
        end = at + found.keys.size
        while at < end:
            while at < end and _is_space(at[0]):
                at += 1
            begin = at
            while at < end and not _is_space(at[0]):
                at += 1
            if at > begin:
                words.append(PyUnicode_DecodeASCII(<const char*>begin, at - begin, NULL))
    if found.tags.size:
        words.append("T#" + PyUnicode_DecodeASCII(<const char*>found.tags.at, found.tags.size, NULL))
    return tuple(words)


# Answers.

cdef bytes ANSWER_TAIL = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION


def replies(frames, Py_ssize_t start, drafts, log_offsets, queue_offsets, code, remark, terms, handles):
    """Return the answers to a run of sends that were stored; see the twin."""
    cdef bytes head = (b'{"code":%d,"extFields":{"msgId":"' % code) + terms.id_prefix.encode()
    cdef str plain = terms.region + terms.trace_on
    cdef bytes tail
    cdef list pieces = []
    cdef Py_ssize_t index
    cdef tuple frame, draft
    cdef bint has_handles = bool(handles)
    if remark or not plain.isascii() or '"' in plain or "\\" in plain or not plain.isprintable():
        return _lane_py.replies(
            frames, start, drafts, log_offsets, queue_offsets, code, remark, terms, handles)
    tail = ('","MSG_REGION":"%s","TRACE_ON":"%s"},"flag":1,"language":"PYTHON","opaque":'
            % (terms.region, terms.trace_on)).encode()
    for index in range(len(drafts)):
        frame = <tuple>frames[start + index]
        draft = <tuple>drafts[index]
        if <int64_t>frame[2] & 2:
            continue
        handle = handles.get(index, "") if has_handles else ""
        piece = _answer(head, tail, log_offsets[index], draft[1], queue_offsets[index], (<tuple>draft[11])[0],
                        handle, frame[1])
        if piece is None:
            return _lane_py.replies(
            frames, start, drafts, log_offsets, queue_offsets, code, remark, terms, handles)
        pieces.append(piece)
    return b"".join(pieces)


cdef object _answer(bytes head, bytes tail, uint64_t log_offset, int64_t queue_id, int64_t queue_offset,
                    str unique_key, str handle, int64_t opaque):
    cdef uint8_t[ANSWER_MAX] out
    cdef uint8_t* at = out + 8
    cdef Py_ssize_t index
    cdef Py_ssize_t header_size
    cdef Py_ssize_t text_size = PyUnicode_GET_LENGTH(unique_key) + PyUnicode_GET_LENGTH(handle)
    if PyBytes_GET_SIZE(head) + PyBytes_GET_SIZE(tail) + text_size + 300 > ANSWER_MAX:
        return None
    at = _copy(at, head)
    for index in range(16):
        at[index] = _hex(<uint8_t>(log_offset >> (60 - 4 * index)) & 15)
    at += 16
    at = _copy(at, b'","queueId":"')
    at = _digits(at, queue_id)
    at = _copy(at, b'","queueOffset":"')
    at = _digits(at, queue_offset)
    at = _copy(at, b'","transactionId":"')
    at = _plain(at, unique_key)
    if at != NULL and PyUnicode_GET_LENGTH(handle):
        at = _plain(_copy(at, b'","recallHandle":"'), handle)
    if at == NULL:
        return None
    at = _copy(at, tail)
    at = _digits(at, opaque)
    at = _copy(at, ANSWER_TAIL)
    header_size = at - out - 8
    _store32(out, <uint32_t>(4 + header_size))
    _store32(out + 4, <uint32_t>header_size)
    return PyBytes_FromStringAndSize(<const char*>out, at - out)


cdef inline uint8_t* _plain(uint8_t* at, str text):
    """Copy a text as JSON; NULL when it has letters that must be escaped."""
    cdef const uint8_t* data = <const uint8_t*>PyUnicode_DATA(text)
    cdef Py_ssize_t index
    if not PyUnicode_IS_COMPACT_ASCII(text):
        return NULL
    for index in range(PyUnicode_GET_LENGTH(text)):
        if data[index] < 32 or data[index] == 34 or data[index] == 92:
            return NULL
        at[index] = data[index]
    return at + PyUnicode_GET_LENGTH(text)


cdef inline uint8_t _hex(uint8_t nibble) noexcept:
    return 48 + nibble if nibble < 10 else 55 + nibble


cdef inline uint8_t* _copy(uint8_t* at, bytes text):
    memcpy(at, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return at + PyBytes_GET_SIZE(text)


cdef inline uint8_t* _digits(uint8_t* at, int64_t value) noexcept:
    cdef uint8_t[24] digits
    cdef uint64_t rest = <uint64_t>value if value >= 0 else <uint64_t>0 - <uint64_t>value
    cdef int count = 0
    if value < 0:
        at[0] = 45
        at += 1
    while True:
        digits[count] = <uint8_t>(48 + rest % 10)
        count += 1
        rest //= 10
        if rest == 0:
            break
    while count:
        count -= 1
        at[0] = digits[count]
        at += 1
    return at


cdef inline void _store32(uint8_t* at, uint32_t value) noexcept:
    at[0] = <uint8_t>(value >> 24)
    at[1] = <uint8_t>(value >> 16)
    at[2] = <uint8_t>(value >> 8)
    at[3] = <uint8_t>value
