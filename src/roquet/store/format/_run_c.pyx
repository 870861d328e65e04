# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Runs of drafts: the compiled twin of `_run_py`, which says what it must do.

Serves every append. A run is measured first, so that all records go into one piece of memory; one that holds
what only the twin knows (sizes out of range, checksums as properties) is left to it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from zlib import crc32

from roquet.model.message import Draft, Entry
from roquet.store.format import _run_py
from roquet.store.format._record_values import DELAY_TOPIC, V1_TOPIC_CHARS_MAX
from roquet.store.format._run_values import Share, Shared
from roquet.store.format.record import describe

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_alloc)(PyTypeObject*, Py_ssize_t)

cdef enum:
    HEAD_BYTES = 80  # of a record without its two addresses
    PREPARED = 0x4
    BORN_V6 = 0x10
    STORE_V6 = 0x20

cdef uint32_t MAGIC_V1 = 0xDAA320A7
cdef uint32_t MAGIC_V2 = 0xDAA320AB
cdef Py_ssize_t TOPIC_CHARS_MAX = V1_TOPIC_CHARS_MAX
cdef object new_tuple = tuple.__new__


cdef inline uint8_t* put32(uint8_t* at, uint32_t value) noexcept:
    at[0], at[1], at[2], at[3] = value >> 24, value >> 16, value >> 8, value
    return at + 4


cdef inline uint8_t* put64(uint8_t* at, uint64_t value) noexcept:
    return put32(put32(at, <uint32_t>(value >> 32)), <uint32_t>value)


cdef class Part:  # a share while it is collected
    cdef object topic
    cdef int64_t queue_id
    cdef bint is_queued
    cdef Py_ssize_t number, count, body_max, properties_max

    cdef inline bint takes(self, object topic, int64_t queue_id, bint is_queued):
        if queue_id != self.queue_id or is_queued != self.is_queued:
            return False
        return topic is self.topic or topic == self.topic


def share_out(drafts):
    """Return the drafts of a run by queue; see the twin."""
    cdef list parts = []
    cdef list owners = []
    cdef dict seen = {}
    cdef Part part = None
    cdef tuple draft
    cdef int64_t queue_id
    cdef bint is_queued
    for each in drafts:
        if not isinstance(each, Draft):
            raise TypeError("runs are made of drafts")
        draft = <tuple>each
        queue_id, is_queued = draft[1], not <int64_t>draft[5] & PREPARED
        if part is None or not part.takes(draft[0], queue_id, is_queued):
            key = (<str?>draft[0], queue_id, is_queued)
            part = seen.get(key)
            if part is None:
                part = seen[key] = Part()
                part.topic, part.queue_id, part.is_queued, part.number = key[0], queue_id, is_queued, len(parts)
                parts.append(part)
        part.count += 1
        part.body_max = max(part.body_max, <Py_ssize_t>len(draft[2]))
        part.properties_max = max(part.properties_max, <Py_ssize_t>len(<bytes?>draft[3]))
        owners.append(part.number)
    return new_tuple(Shared, ([_share_of(part) for part in parts], owners))


cdef object _share_of(Part part):
    return new_tuple(Share, (
        part.topic, part.queue_id, part.is_queued, part.count, part.body_max, part.properties_max
    ))


# What all records of a run share, and the topic of the last one.
cdef class Common:
    cdef int64_t store_ms
    cdef object store_ms_object
    cdef bytes store_ip
    cdef int32_t store_port
    cdef str topic
    cdef bytes name
    cdef bint is_v2, is_delay

    cdef int turn_to(self, str topic) except -1:
        if topic is not self.topic:
            self.topic, self.name = topic, topic.encode()
            self.is_v2, self.is_delay = len(topic) > TOPIC_CHARS_MAX, topic == DELAY_TOPIC
        return 0

    cdef Py_ssize_t size_of(self, tuple draft) except -2:
        """Return how long a record is; -1 when only the twin can say what is wrong with it."""
        cdef Py_ssize_t body_size, properties_size, name_size
        if type(draft[2]) is not bytes or type(draft[3]) is not bytes:
            return -1
        self.turn_to(<str?>draft[0])
        body_size, properties_size = PyBytes_GET_SIZE(draft[2]), PyBytes_GET_SIZE(draft[3])
        name_size = PyBytes_GET_SIZE(self.name)
        if name_size > (65535 if self.is_v2 else 255) or properties_size > 32767 or body_size > 0x7FFF0000:
            return -1
        return (HEAD_BYTES + <Py_ssize_t>len(draft[7][0]) + PyBytes_GET_SIZE(self.store_ip)
                + body_size + (2 if self.is_v2 else 1) + name_size + 2 + properties_size)


def lay_out(drafts, queue_offsets, int64_t log_offset, int64_t store_ms, store_host, delays_ms, bint with_crc):
    """Return the records of a run that begins at `log_offset`, and their entries; see the twin."""
    cdef Common shared = Common()
    cdef Py_ssize_t total = 0, size, number, count = len(drafts)
    cdef list entries = []
    cdef bytes made
    cdef uint8_t* at
    cdef tuple draft
    if with_crc or len(queue_offsets) != count:
        return _run_py.lay_out(drafts, queue_offsets, log_offset, store_ms, store_host, delays_ms, with_crc)
    shared.store_ms, shared.store_ms_object = store_ms, store_ms
    shared.store_ip, shared.store_port = store_host[0], store_host[1]
    for each in drafts:
        size = shared.size_of(<tuple>each) if isinstance(each, Draft) else -1
        if size < 0:
            return _run_py.lay_out(drafts, queue_offsets, log_offset, store_ms, store_host, delays_ms, with_crc)
        total += size
    made = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t*>PyBytes_AS_STRING(made)
    for number in range(count):
        draft = <tuple>drafts[number]
        size = shared.size_of(draft)
        queue_offset = queue_offsets[number]
        put_record(at, size, draft, queue_offset, log_offset, shared)
        entries.append(entry_of(size, draft, queue_offset, log_offset, shared, delays_ms))
        at += size
        log_offset += size
    return made, entries


cdef int put_record(
    uint8_t* at, Py_ssize_t size, tuple draft, int64_t queue_offset, int64_t log_offset, Common shared
) except -1:
    cdef bytes body = <bytes>draft[2], properties = <bytes>draft[3], name = shared.name
    cdef object born = draft[7]
    cdef bytes born_ip = <bytes?>born[0], store_ip = shared.store_ip
    cdef Py_ssize_t body_size = PyBytes_GET_SIZE(body), properties_size = PyBytes_GET_SIZE(properties)
    cdef Py_ssize_t name_size = PyBytes_GET_SIZE(name)
    cdef Py_ssize_t born_size = PyBytes_GET_SIZE(born_ip), store_size = PyBytes_GET_SIZE(store_ip)
    cdef int32_t sys_flag = <int32_t>draft[5] & ~(BORN_V6 | STORE_V6)
    if born_size == 16:
        sys_flag |= BORN_V6
    if store_size == 16:
        sys_flag |= STORE_V6
    at = put32(at, <uint32_t>size)
    at = put32(at, MAGIC_V2 if shared.is_v2 else MAGIC_V1)
    at = put32(at, <uint32_t>crc32(body) & 0x7FFFFFFF if body_size else 0)
    at = put32(at, <uint32_t><int32_t>draft[1])
    at = put32(at, <uint32_t><int32_t>draft[4])
    at = put64(at, <uint64_t>queue_offset)
    at = put64(at, <uint64_t>log_offset)
    at = put32(at, <uint32_t>sys_flag)
    at = put64(at, <uint64_t><int64_t>draft[6])
    memcpy(at, PyBytes_AS_STRING(born_ip), born_size)
    at = put32(at + born_size, <uint32_t><int32_t>born[1])
    at = put64(at, <uint64_t>shared.store_ms)
    memcpy(at, PyBytes_AS_STRING(store_ip), store_size)
    at = put32(at + store_size, <uint32_t>shared.store_port)
    at = put32(at, <uint32_t><int32_t>draft[8])
    at = put64(at, <uint64_t><int64_t>draft[9])
    at = put32(at, <uint32_t>body_size)
    memcpy(at, PyBytes_AS_STRING(body), body_size)
    at += body_size
    if shared.is_v2:
        at[0] = name_size >> 8
        at += 1
    at[0] = name_size & 0xFF
    memcpy(at + 1, PyBytes_AS_STRING(name), name_size)
    at += 1 + name_size
    at[0], at[1] = properties_size >> 8, properties_size & 0xFF
    memcpy(at + 2, PyBytes_AS_STRING(properties), properties_size)
    return 0


cdef object entry_of(
    Py_ssize_t size, tuple draft, object queue_offset, int64_t log_offset, Common shared, delays_ms
):
    """Return an Entry without going through its Python constructor."""
    cdef PyTypeObject* kind = <PyTypeObject*>Entry
    cdef object tag_code = draft[10]
    if shared.is_delay:
        tag_code = describe(shared.topic, <bytes>draft[3], shared.store_ms, delays_ms)[0]
    cdef object entry = kind.tp_alloc(kind, 11)
    _put(entry, 0, log_offset)
    _put(entry, 1, size)
    _put(entry, 2, draft[0])
    _put(entry, 3, draft[1])
    _put(entry, 4, queue_offset)
    _put(entry, 5, tag_code)
    _put(entry, 6, shared.store_ms_object)
    _put(entry, 7, draft[5])
    _put(entry, 8, draft[9])
    _put(entry, 9, draft[11])
    _put(entry, 10, draft[3])
    return entry


cdef inline void _put(object target, Py_ssize_t index, object value):
    Py_INCREF(value)
    PyTuple_SET_ITEM(target, index, value)
