# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Encode records and scan the log: the compiled twin of `_record_py`, which says what it must do.

`encode` serves every append, `scan` reads gigabytes after a crash. Every read is checked against the end
of the record before it is made; texts of errors come from one place, the twin, which looks again at a
record that this one refuses.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy

from zlib import crc32

from roquet.model.message import Entry
from roquet.store.format import _record_py
from roquet.store.format._record_values import DELAY_TOPIC, TAG_KEY, V1_TOPIC_CHARS_MAX, Part, Scan, Stop, Survey

cdef enum:
    HEAD_BYTES_V4 = 88
    RECORD_BYTES_MIN = 91
    BORN_V6 = 0x10
    STORE_V6 = 0x20
    PREPARED = 0x4
    ROLLBACK = 0xC

cdef uint32_t MAGIC_V1 = 0xDAA320A7
cdef uint32_t MAGIC_V2 = 0xDAA320AB
cdef uint32_t MAGIC_BLANK = 0xCBD43194
cdef Py_ssize_t TOPIC_CHARS_MAX = V1_TOPIC_CHARS_MAX
cdef object new_tuple = tuple.__new__
cdef object MORE = Stop.MORE, FILE_END = Stop.FILE_END, ZEROS = Stop.ZEROS, BROKEN = Stop.BROKEN


cdef inline uint32_t u32(const uint8_t* at) noexcept:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t i64(const uint8_t* at) noexcept:
    return <int64_t>((<uint64_t>u32(at) << 32) | u32(at + 4))


cdef inline uint8_t* put32(uint8_t* at, uint32_t value) noexcept:
    at[0], at[1], at[2], at[3] = value >> 24, value >> 16, value >> 8, value
    return at + 4


cdef inline uint8_t* put64(uint8_t* at, uint64_t value) noexcept:
    return put32(put32(at, <uint32_t>(value >> 32)), <uint32_t>value)


def encode(draft, int64_t queue_offset, int64_t log_offset, int64_t store_ms, store_host):
    """Return the bytes of the record that lies at `log_offset`."""
    cdef object topic_text, body_any, born_host
    topic_text, queue_id, body_any, properties_any, flag, flags, born_ms, born_host, reconsumed, prepared = draft[:10]
    cdef bytes topic = (<str?>topic_text).encode()
    cdef bytes body = body_any if type(body_any) is bytes else bytes(body_any)
    cdef bytes properties = <bytes?>properties_any
    cdef bytes born_ip = <bytes?>born_host[0]
    cdef bytes store_ip = <bytes?>store_host[0]
    cdef Py_ssize_t topic_size = PyBytes_GET_SIZE(topic)
    cdef Py_ssize_t body_size = PyBytes_GET_SIZE(body)
    cdef Py_ssize_t properties_size = PyBytes_GET_SIZE(properties)
    cdef Py_ssize_t born_size = PyBytes_GET_SIZE(born_ip), store_size = PyBytes_GET_SIZE(store_ip)
    cdef bint is_v2 = len(<str>topic_text) > TOPIC_CHARS_MAX
    if topic_size > (65535 if is_v2 else 255) or properties_size > 32767 or body_size > 0x7FFF0000:
        return _record_py.encode(draft, queue_offset, log_offset, store_ms, store_host)
    cdef int32_t sys_flag = flags
    sys_flag &= ~(BORN_V6 | STORE_V6)
    if born_size == 16:
        sys_flag |= BORN_V6
    if store_size == 16:
        sys_flag |= STORE_V6
    cdef uint32_t crc = <uint32_t>crc32(body) & 0x7FFFFFFF if body_size else 0
    cdef Py_ssize_t size = (
        HEAD_BYTES_V4 - 8 + born_size + store_size + body_size + (2 if is_v2 else 1) + topic_size + 2 + properties_size
    )
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(made)
    at = put32(at, <uint32_t>size)
    at = put32(at, MAGIC_V2 if is_v2 else MAGIC_V1)
    at = put32(at, crc)
    at = put32(at, <uint32_t><int32_t>queue_id)
    at = put32(at, <uint32_t><int32_t>flag)
    at = put64(at, <uint64_t>queue_offset)
    at = put64(at, <uint64_t>log_offset)
    at = put32(at, <uint32_t>sys_flag)
    at = put64(at, <uint64_t><int64_t>born_ms)
    memcpy(at, PyBytes_AS_STRING(born_ip), born_size)
    at = put32(at + born_size, <uint32_t><int32_t>born_host[1])
    at = put64(at, <uint64_t>store_ms)
    memcpy(at, PyBytes_AS_STRING(store_ip), store_size)
    at = put32(at + store_size, <uint32_t><int32_t>store_host[1])
    at = put32(at, <uint32_t><int32_t>reconsumed)
    at = put64(at, <uint64_t><int64_t>prepared)
    at = put32(at, <uint32_t>body_size)
    memcpy(at, PyBytes_AS_STRING(body), body_size)
    at += body_size
    if is_v2:
        at[0] = topic_size >> 8
        at += 1
    at[0] = topic_size & 0xFF
    memcpy(at + 1, PyBytes_AS_STRING(topic), topic_size)
    at += 1 + topic_size
    at[0], at[1] = properties_size >> 8, properties_size & 0xFF
    memcpy(at + 2, PyBytes_AS_STRING(properties), properties_size)
    return made


def scan(bytes data not None, int64_t log_offset, int64_t file_end, bint check_crc, delays_ms, Py_ssize_t entries_max):
    """Read records one behind the other, as `_record_py.scan` does."""
    cdef list entries = []
    cdef dict topics = {}
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data), position = 0, count = 0
    cdef int64_t at
    cdef int32_t size
    cdef uint32_t magic
    cdef Fields fields
    while count < entries_max:
        at = log_offset + position
        if length - position < 8:
            return Scan(entries, at, FILE_END if at == file_end else MORE, 0, "")
        size = <int32_t>u32(start + position)
        magic = u32(start + position + 4)
        if magic == MAGIC_BLANK:
            return Scan(entries, at, FILE_END, 0, "")
        if size == 0 and magic == 0:
            return Scan(entries, at, ZEROS, 0, "")
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or size < RECORD_BYTES_MIN or at + size > file_end:
            return refused(entries, data, position, length - position, at, file_end, check_crc, delays_ms)
        if position + size > length:
            return Scan(entries, at, MORE, size, "")
        if not read_fields(start + position, size, magic, at, check_crc, &fields):
            return refused(entries, data, position, size, at, file_end, check_crc, delays_ms)
        entries.append(entry_of(&fields, delays_ms, topics))
        count += 1
        position += size
    return Scan(entries, log_offset + position, MORE, 0, "")


cdef refused(list entries, bytes data, Py_ssize_t position, Py_ssize_t size, int64_t at, int64_t file_end, bint check_crc, delays_ms):
    """Let the twin say what is wrong with the record at `position`."""
    found = _record_py.scan(data[position : position + min(size, 1 << 26)], at, file_end, check_crc, delays_ms, 1)
    assert found.stop is BROKEN, "the twins do not agree"
    return found._replace(entries=entries)


cdef struct Value:
    const char* at
    Py_ssize_t size


cdef struct Words:  # the properties that queues and index are made from
    Value tag
    Value keys
    Value unique
    Value delay


cdef struct Fields:  # where the parts of a record lie, and the numbers in between
    int32_t size
    int32_t queue_id
    int32_t sys_flag
    int64_t queue_offset
    int64_t log_offset
    int64_t store_ms
    int64_t prepared_log_offset
    const char* topic
    Py_ssize_t topic_size
    const char* properties
    Py_ssize_t properties_size


cdef bint read_fields(const uint8_t* record, int32_t size, uint32_t magic, int64_t at, bint check_crc, Fields* fields) except -1:
    """Fill in the fields of one record; return whether its bytes are right."""
    cdef int32_t sys_flag = <int32_t>u32(record + 36)
    cdef Py_ssize_t store_at = 68 if sys_flag & BORN_V6 else 56
    cdef Py_ssize_t tail = store_at + (28 if sys_flag & STORE_V6 else 16)
    cdef Py_ssize_t topic_field = 2 if magic == MAGIC_V2 else 1
    cdef Py_ssize_t body_at = tail + 16, topic_at, topic_size, properties_at, properties_size
    cdef int64_t body_size
    if i64(record + 28) != at or body_at + topic_field + 2 > size:
        return False
    body_size = <int32_t>u32(record + tail + 12)
    if body_size < 0 or body_at + body_size + topic_field + 2 > size:
        return False
    topic_at = body_at + body_size
    topic_size = record[topic_at]
    if topic_field == 2:
        topic_size = (topic_size << 8) | record[topic_at + 1]
    properties_at = topic_at + topic_field + topic_size + 2
    if properties_at > size:
        return False
    properties_size = <int16_t>((<uint16_t>record[properties_at - 2] << 8) | record[properties_at - 1])
    if properties_size < 0 or properties_at + properties_size != size:
        return False
    if check_crc and body_size:
        body = PyBytes_FromStringAndSize(<const char*>record + body_at, body_size)
        if (<uint32_t>crc32(body) & 0x7FFFFFFF) != u32(record + 8):
            return False
    fields.size, fields.queue_id, fields.sys_flag = size, <int32_t>u32(record + 12), sys_flag
    fields.queue_offset, fields.log_offset = i64(record + 20), at
    fields.store_ms, fields.prepared_log_offset = i64(record + store_at), i64(record + tail + 4)
    fields.topic, fields.topic_size = <const char*>record + topic_at + topic_field, topic_size
    fields.properties, fields.properties_size = <const char*>record + properties_at, properties_size
    return True


cdef entry_of(Fields* fields, delays_ms, dict topics):
    """Return the entry of one record."""
    cdef bytes name = PyBytes_FromStringAndSize(fields.topic, fields.topic_size)
    topic = topics.get(name)
    if topic is None:
        topic = topics[name] = name.decode("utf-8", "replace")
    cdef bytes properties = PyBytes_FromStringAndSize(fields.properties, fields.properties_size)
    tag_code, keys = _describe(topic, properties, fields.store_ms, delays_ms)
    return new_tuple(Entry, (
        fields.log_offset, fields.size, topic, fields.queue_id, fields.queue_offset, tag_code, fields.store_ms,
        fields.sys_flag, fields.prepared_log_offset, keys, properties,
    ))


cdef class Growing:  # bytes that grow at their end
    cdef uint8_t* data
    cdef Py_ssize_t size, capacity

    def __dealloc__(self):
        free(self.data)

    cdef uint8_t* more(self) except NULL:
        """Return the place of the next 20 bytes."""
        cdef uint8_t* grown
        if self.size + 20 > self.capacity:
            grown = <uint8_t*>realloc(self.data, 2 * self.capacity + 320)
            if grown == NULL:
                raise MemoryError
            self.data, self.capacity = grown, 2 * self.capacity + 320
        self.size += 20
        return self.data + self.size - 20

    cdef bytes taken(self):
        return PyBytes_FromStringAndSize(<const char*>self.data, self.size)


cdef class OfQueue(Growing):  # a part of a queue while it is collected
    cdef object topic
    cdef int32_t queue_id
    cdef int64_t first_offset, next_offset


cdef class OfTopic:  # what all messages of a topic share
    cdef str name
    cdef bytes raw
    cdef dict queues
    cdef uint32_t hashed
    cdef bint is_delay


cdef class Collected:  # all parts and key rows of one survey
    cdef list parts
    cdef Growing rows
    cdef dict topics
    cdef OfTopic last

    def __cinit__(self):
        self.parts, self.rows, self.topics = [], Growing(), {}

    cdef OfTopic topic_of(self, Fields* fields):
        cdef OfTopic topic = self.last
        if topic is not None and PyBytes_GET_SIZE(topic.raw) == fields.topic_size and memcmp(
            PyBytes_AS_STRING(topic.raw), fields.topic, fields.topic_size
        ) == 0:
            return topic
        cdef bytes raw = PyBytes_FromStringAndSize(fields.topic, fields.topic_size)
        topic = self.topics.get(raw)
        if topic is None:
            topic = self.topics[raw] = OfTopic()
            topic.raw, topic.name, topic.queues = raw, raw.decode("utf-8", "replace"), {}
            topic.hashed = 31 * hash_on(0, topic.name) + c'#'
            topic.is_delay = topic.name == DELAY_TOPIC
        self.last = topic
        return topic

    cdef int add(self, Fields* fields, delays_ms) except -1:
        cdef OfTopic topic = self.topic_of(fields)
        cdef Words words = words_of(fields.properties, fields.properties_size)
        cdef int64_t tag_code = 0
        cdef OfQueue part
        cdef uint8_t* at
        if topic.is_delay and words.delay.size:
            tag_code = _describe(topic.name, fields.properties[:fields.properties_size], fields.store_ms, delays_ms)[0]
        elif words.tag.size:
            tag_code = <int32_t>hash_value(0, words.tag)
        if not fields.sys_flag & PREPARED:
            part = topic.queues.get(fields.queue_id)
            if part is None or part.next_offset != fields.queue_offset or part.next_offset < 0:
                part = topic.queues[fields.queue_id] = OfQueue()
                part.topic, part.queue_id, part.first_offset = topic.name, fields.queue_id, fields.queue_offset
                self.parts.append(part)
            at = part.more()
            put64(put32(put64(at, <uint64_t>fields.log_offset), <uint32_t>fields.size), <uint64_t>tag_code)
            part.next_offset = fields.queue_offset + 1
        if fields.sys_flag & ROLLBACK != ROLLBACK:
            self.add_rows(fields, topic.hashed, words)
        return 0

    cdef int add_rows(self, Fields* fields, uint32_t hashed, Words words) except -1:
        cdef Value word
        if words.unique.size:
            self.add_row(fields, hash_value(hashed, words.unique))
        if words.keys.size and is_ascii(words.keys):
            word.at = words.keys.at
            while word.at < words.keys.at + words.keys.size:
                word.size = 0
                while word.at + word.size < words.keys.at + words.keys.size and word.at[word.size] != c' ':
                    word.size += 1
                if word.size:
                    self.add_row(fields, hash_value(hashed, word))
                word.at += word.size + 1
        elif words.keys.size:
            for key in text(words.keys.at, words.keys.size).split(" "):
                if key:
                    self.add_row(fields, hash_on(hashed, key))
        if words.tag.size:
            self.add_row(fields, hash_value(hash_on(hashed, TAG_KEY), words.tag))
        return 0

    cdef int add_row(self, Fields* fields, uint32_t hashed) except -1:
        if hashed & 0x80000000:
            hashed = 0 - hashed
        put64(put64(put32(self.rows.more(), hashed & 0x7FFFFFFF), <uint64_t>fields.log_offset), <uint64_t>fields.store_ms)
        return 0


def survey(bytes data not None, int64_t log_offset, int64_t file_end, bint check_crc, delays_ms):
    """Read records as `_record_py.survey` does."""
    cdef Collected found = Collected()
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data), position = 0, count = 0
    cdef Fields fields
    cdef int32_t size, sys_flags = 0
    cdef uint32_t magic
    fields.log_offset = fields.store_ms = 0
    while length - position >= 8:
        size, magic = <int32_t>u32(start + position), u32(start + position + 4)
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or size < RECORD_BYTES_MIN or position + size > length:
            break
        if log_offset + position + size > file_end:
            break
        if not read_fields(start + position, size, magic, log_offset + position, check_crc, &fields):
            break
        found.add(&fields, delays_ms)
        sys_flags |= fields.sys_flag
        count += 1
        position += size
    # Why it ended here is what a scan of the rest says, which has no whole record at its beginning.
    cdef object rest = scan(data[position:], log_offset + position, file_end, check_crc, delays_ms, 1)
    cdef list parts = []
    cdef OfQueue part
    for part in found.parts:
        parts.append(new_tuple(Part, (part.topic, part.queue_id, part.first_offset, part.taken())))
    return Survey(count, parts, found.rows.taken(), sys_flags, fields.log_offset, fields.store_ms, *rest[1:])


cdef inline bint is_ascii(Value value) noexcept:
    for index in range(value.size):
        if value.at[index] & 0x80:
            return False
    return True


cdef uint32_t hash_value(uint32_t hashed, Value value):
    """Go on with Java's hash of a text that is still in bytes."""
    if not is_ascii(value):
        return hash_on(hashed, text(value.at, value.size))
    for index in range(value.size):
        hashed = 31 * hashed + <uint8_t>value.at[index]
    return hashed


cdef uint32_t hash_on(uint32_t value, str text):
    """Go on with Java's hash of a text: over UTF-16 units."""
    cdef Py_UCS4 letter
    for letter in text:
        if <uint32_t>letter > 0xFFFF:
            value = 31 * value + (0xD800 + ((<uint32_t>letter - 0x10000) >> 10))
            value = 31 * value + (0xDC00 + ((<uint32_t>letter - 0x10000) & 0x3FF))
        else:
            value = 31 * value + <uint32_t>letter
    return value


cdef inline str text(const char* at, Py_ssize_t size):
    return PyUnicode_DecodeUTF8(at, size, "replace")


def describe(str topic not None, bytes properties not None, int64_t store_ms, delays_ms):
    """Return the tag code and the keys that a record's properties stand for."""
    return _describe(topic, properties, store_ms, delays_ms)


cdef Words words_of(const char* at, Py_ssize_t size) noexcept:
    cdef const char* end = at + size
    cdef const char* stop
    cdef const char* mark
    cdef Words words
    cdef Value value
    cdef Py_ssize_t name_size
    words.tag = words.keys = words.unique = words.delay = Value(NULL, 0)
    while at < end:
        stop = <const char*>memchr(at, 2, end - at)
        if stop == NULL:
            stop = end
        mark = <const char*>memchr(at, 1, stop - at)
        if mark != NULL and mark + 1 < stop:
            name_size = mark - at
            value.at, value.size = mark + 1, stop - mark - 1
            if name_size == 4 and memcmp(at, b"TAGS", 4) == 0:
                words.tag = value
            elif name_size == 4 and memcmp(at, b"KEYS", 4) == 0:
                words.keys = value
            elif name_size == 8 and memcmp(at, b"UNIQ_KEY", 8) == 0:
                words.unique = value
            elif name_size == 5 and memcmp(at, b"DELAY", 5) == 0:
                words.delay = value
        at = stop + 1
    return words


cdef tuple _describe(str topic, bytes properties, int64_t store_ms, delays_ms):
    cdef Words found = words_of(PyBytes_AS_STRING(properties), PyBytes_GET_SIZE(properties))
    cdef list words = []
    if found.unique.size:
        words.append(text(found.unique.at, found.unique.size))
    if found.keys.size:
        for word in text(found.keys.at, found.keys.size).split(" "):
            if word:
                words.append(word)
    if found.tag.size:
        words.append(TAG_KEY + text(found.tag.at, found.tag.size))
    if found.delay.size and topic == DELAY_TOPIC:
        deliver_ms = _record_py.deliver_ms_of(found.delay.at[:found.delay.size], store_ms, delays_ms)
        if deliver_ms:
            return deliver_ms, tuple(words)
    return (<int32_t>hash_value(0, found.tag) if found.tag.size else 0), tuple(words)
