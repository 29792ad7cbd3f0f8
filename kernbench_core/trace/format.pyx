"""Formats records as lines of JSON, in batches, without a Python object for each line.

The format of a line is data: for each kind of record a list of templates, each with a list of parts, which `kernbench` makes from the
schema. A part is a text, a value of the record, a column of its entry, or a text chosen by one of these.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset
from kernbench_core.state.arrays cimport ANY, int64s
from kernbench_core.trace.record_order cimport arrange
from kernbench_core.trace.events cimport (
    MISSING, REC_CONTROL, REC_CPU_END, REC_CPU_START, REC_EMIT, REC_END, REC_ENQUEUE, REC_OVERLAP, REC_RUN, REC_STALL, REC_START,
    Event, Trace, forget)
from kernbench_core.trace.repeats cimport BEFORE, LINES, PLACES, Repeat, Repeats, holds, kb_digits, place_of, put_repeat, storable
from kernbench_core.trace.templates cimport (
    OWN, P_COLUMN, P_CYCLE, P_TEXT_OF_COLUMN, P_TEXT_OF_VALUE, P_VALUE, SHARED, Item, Kind, Template, Text, put_item)
from kernbench_core.trace.text cimport CHUNK, Buffer
from kernbench_core.types cimport cycle_t, int32_t, int64_t, uint64_t

TEXT, VALUE, COLUMN, CYCLE, TEXT_OF_VALUE, TEXT_OF_COLUMN = range(6)  # kinds of parts
ALWAYS, TOKEN_ENDS = -1, -2                                            # conditions of a template, besides columns
NOTHING = MISSING                                                      # value of a column: the entry has no such value
NO_UNIT, UNIT_OF_ENTRY = -1, -2                                        # sources of a template's unit, in addition to a fixed unit number

cdef enum:
    PIECE = 1 << 17           # [B] text produced at once, plus one line: it stays in a near cache
    DIGITS = 20               # limit of the characters of a number


cdef bint reserve(Buffer* b, int64_t more) noexcept nogil:
    """Make room for a number of bytes, plus a chunk; false if there is no memory."""
    cdef char* data
    cdef int64_t room = b.n + more + CHUNK
    if room <= b.room:
        return True
    data = <char*>realloc(b.data, 2 * room)
    if data == NULL:
        return False
    b.data = data
    b.room = 2 * room
    return True


cdef list padded(list texts):
    """The texts, each with a chunk of room after it (trace/text.pxd)."""
    return [text + bytes(CHUNK) for text in texts]


cdef class Format:
    """The conversion of records to lines.

    `columns`: int64 arrays over the entries. `tables`: lists of bytes. `kinds`: for each kind of record, its templates. A template is a
    tuple `(only_if, unit, unit_value, shared, parts)`, and a part is `(kind, at, table, base, text)`. `shared`: empty, or the indices of
    values that many records of an entry have in common, whose lines are then made from stored texts. `units`: one byte for each unit,
    which says whether its lines are kept. `unit_column`, `token_column`: the columns with an entry's unit and token group;
    `tokens_remaining`: the number of entries of each group.
    """
    cdef list keep                # references to all objects to which pointers exist
    cdef list pieces              # padded texts
    cdef Item* part
    cdef Template* template
    cdef Repeats repeats
    cdef Kind* kind               # [kinds]
    cdef int32_t kinds
    cdef const int64_t** column
    cdef Text** table
    cdef int32_t n_tables
    cdef const unsigned char* unit_kept
    cdef int32_t unit_column
    cdef int32_t token_column
    cdef int32_t groups
    cdef int64_t* tokens_remaining
    cdef int64_t* token_start
    cdef int64_t longest          # [B] largest size of the lines of a record
    cdef readonly int64_t lines   # written so far
    cdef cycle_t first            # only events from this cycle on are written
    cdef cycle_t last
    cdef Buffer out
    cdef int64_t arranged         # number of records that are in order
    cdef int64_t at               # number of those that are already lines

    def __init__(self, list columns, list tables, list kinds, bytes units, int32_t unit_column, int32_t token_column,
                 list tokens_remaining, list token_start, cycle_t first, cycle_t last):
        cdef int32_t k, n_parts, n_templates
        if self.part != NULL:
            raise RuntimeError("a Format is made once")
        self.keep = [columns, tables, kinds, units]
        self.kinds = len(kinds)
        self.first = first
        self.last = last
        n_templates = sum(map(len, kinds))
        n_parts = sum([len(t[4]) for templates in kinds for t in templates])
        self.part = <Item*>calloc(n_parts + 1, sizeof(Item))
        self.template = <Template*>calloc(n_templates + 1, sizeof(Template))
        self.kind = <Kind*>calloc(self.kinds + 1, sizeof(Kind))
        self.column = <const int64_t**>calloc(len(columns) + 1, sizeof(void*))
        self.n_tables = len(tables)
        self.table = <Text**>calloc(self.n_tables + 1, sizeof(void*))
        self.tokens_remaining = <int64_t*>calloc(len(tokens_remaining) + 1, sizeof(int64_t))
        self.token_start = <int64_t*>calloc(len(tokens_remaining) + 1, sizeof(int64_t))
        if not (self.part and self.template and self.kind and self.column and self.table and self.tokens_remaining and self.token_start):
            raise MemoryError("no memory for the templates of a trace")
        self.unit_kept = <const unsigned char*>PyBytes_AS_STRING(units)
        self.unit_column = unit_column
        self.groups = len(tokens_remaining)
        self.token_column = token_column
        for k, (left, start) in enumerate(zip(tokens_remaining, token_start)):
            self.tokens_remaining[k] = left
            self.token_start[k] = start
        for k, column in enumerate(columns):
            if len(column):
                self.column[k] = int64s(column, ANY)
        self.put_templates(kinds, self.put_tables(tables))

    cdef list put_tables(self, list tables):
        """Set the pointers to the texts; return the length of the longest text of each table [B]."""
        cdef int32_t k, i
        cdef Text* texts
        longest = [0] * len(tables)
        self.pieces = []
        for k, table in enumerate(tables):
            texts = <Text*>calloc(len(table) + 1, sizeof(Text))
            if texts == NULL:
                raise MemoryError("no memory for the texts of a trace")
            self.table[k] = texts
            pieces = padded(table)
            self.pieces.append(pieces)
            for i, text in enumerate(pieces):
                texts[i].data = PyBytes_AS_STRING(text)
                texts[i].length = PyBytes_GET_SIZE(text) - CHUNK
                longest[k] = max(longest[k], texts[i].length)
        return longest

    cdef int put_templates(self, list kinds, list longest_texts) except -1:
        """Lay out the templates and their parts, and compute the largest size of the lines of a record."""
        cdef int32_t k = 0, i = 0
        repeats = 0
        for number, templates in enumerate(kinds):
            self.kind[number].first = k
            self.kind[number].n = len(templates)
            length = 0
            for only_if, unit, unit_value, _, parts in templates:
                self.template[k].first = i
                self.template[k].n = len(parts)
                self.template[k].only_if = only_if
                self.template[k].unit = unit
                self.template[k].unit_value = unit_value
                length += 1
                pieces = padded([part[4] for part in parts])
                self.pieces.append(pieces)
                for part, text in zip(parts, pieces):
                    self.part[i].kind, self.part[i].at, self.part[i].table, self.part[i].base = part[:4]
                    self.part[i].text = PyBytes_AS_STRING(text)
                    self.part[i].length = PyBytes_GET_SIZE(text) - CHUNK
                    length += self.part[i].length
                    length += longest_texts[self.part[i].table] if self.part[i].kind >= P_TEXT_OF_VALUE else DIGITS
                    i += 1
                k += 1
            self.longest = max(self.longest, length)
            shared = sorted({value for template in templates for value in template[3]})
            if shared:
                self.store_lines(&self.kind[number], shared)
                repeats = max(repeats, length)
        return self.make_places(repeats + CHUNK)

    cdef int store_lines(self, Kind* t, list shared) except -1:
        """Let lines of a kind of record be stored. ValueError if they cannot."""
        cdef int32_t k, i
        cdef Item* p
        t.repeats = True
        t.n_own = 0
        own = []
        for k in range(t.first, t.first + t.n):
            if self.part[self.template[k].first].kind != P_CYCLE or self.template[k].unit >= 0 and self.template[k].unit_value >= 0:
                raise ValueError("lines that repeat begin with their cycle, and have the unit of their entry")
            for i in range(self.template[k].n):
                p = &self.part[self.template[k].first + i]
                if (p.kind == P_VALUE or p.kind == P_TEXT_OF_VALUE) and p.at not in shared:
                    if p.kind == P_TEXT_OF_VALUE:
                        raise ValueError(f"the text of value {p.at} must be shared by records that repeat")
                    own.append(p.at)
        own = list(dict.fromkeys(own))
        if t.n > LINES or len(shared) > SHARED or len(own) > OWN:
            raise ValueError(f"records that repeat have {t.n} lines with {len(shared)} shared and {len(own)} other values")
        t.n_own = len(own)
        for k in range(SHARED):
            t.shared[k] = shared[min(k, len(shared) - 1)]
        for k, i in enumerate(own):
            t.own[k] = i
        return 0

    cdef int make_places(self, int64_t room) except -1:
        """Make room for the stored lines; `room`: the largest size of the lines of a record [B]. Stored lines stay if they have it."""
        if room <= self.repeats.room:
            return 0
        self.free_places()
        self.repeats.room = room
        self.repeats.place = <Repeat*>calloc(PLACES, sizeof(Repeat))
        cdef char* text = <char*>malloc(BEFORE + PLACES * room)
        if self.repeats.place == NULL or text == NULL:
            free(text)
            raise MemoryError("no memory for the lines of a trace")
        self.repeats.text = text + BEFORE
        return 0

    cdef void free_places(self) noexcept:
        free(self.repeats.place)
        if self.repeats.text != NULL:
            free(self.repeats.text - BEFORE)
        self.repeats.place = NULL
        self.repeats.text = NULL

    def __dealloc__(self):
        cdef int32_t k
        if self.table:
            for k in range(self.n_tables):
                free(self.table[k])
        free(self.table)
        free(self.part)
        free(self.template)
        self.free_places()
        free(self.kind)
        free(self.column)
        free(self.tokens_remaining)
        free(self.token_start)
        free(self.out.data)

    cdef bint wanted(self, Template* t, Event* e, int32_t token) noexcept nogil:
        cdef int64_t unit
        if t.only_if == -2:
            if token < 0:
                return False
        elif t.only_if >= 0 and self.column[t.only_if][e.entry] == MISSING:
            return False
        if t.unit == -1:
            return True
        if t.unit == -2:
            unit = self.column[self.unit_column][e.entry]
        elif t.unit < -2:
            unit = self.column[-3 - t.unit][e.entry]
            if unit == MISSING:             # unit of something without banks
                return False
        else:
            unit = t.unit + (e.v[t.unit_value] if t.unit_value >= 0 else 0)
        return self.unit_kept[unit] != 0

    cdef int32_t follow_token(self, Event* e) noexcept nogil:
        """A token group starts with its first entry and ends with its last: return its number if it starts or ends now, else -1."""
        cdef int64_t group
        if e.kind == REC_RUN or e.entry < 0:
            return -1
        group = self.column[self.token_column][e.entry]
        if group == MISSING:
            return -1
        if (e.kind == REC_CONTROL or e.kind == REC_CPU_START or REC_START <= e.kind < REC_END) and self.token_start[group] < 0:
            self.token_start[group] = e.cycle
        if e.kind != REC_CONTROL and e.kind != REC_CPU_END and not REC_END <= e.kind < REC_STALL:
            return -1
        self.tokens_remaining[group] -= 1
        if self.tokens_remaining[group]:
            return -1
        e.v[6] = self.token_start[group]
        e.v[7] = e.cycle - e.v[6]
        return <int32_t>group

    cdef void store(self, Repeat* r, char* text, Kind* t, Event* e) noexcept nogil:
        """Make the lines of a record, and note where their numbers end."""
        cdef Buffer b
        cdef Item* p
        cdef Template* line
        cdef int32_t i, j, k
        r.kind = t
        r.entry = e.entry
        for k in range(SHARED):
            r.shared[k] = e.v[t.shared[k]]
        r.own[0] = <uint64_t>e.cycle
        for k in range(t.n_own):
            r.own[k + 1] = <uint64_t>e.v[t.own[k]]
        for k in range(t.n_own + 1):
            r.digits[k] = <int32_t>kb_digits(r.own[k])
        memset(r.end, 0, sizeof(r.end))
        r.lines = 0
        b.data = text
        b.n = 0
        for i in range(t.n):
            line = &self.template[t.first + i]
            if not self.wanted(line, e, -1):
                continue
            for j in range(line.n):
                p = &self.part[line.first + j]
                put_item(&b, p, e, self.column, self.table)
                if p.kind == P_CYCLE:
                    r.end[i] = <int32_t>b.n
                for k in range(t.n_own if p.kind == P_VALUE else 0):
                    if t.own[k] == p.at:
                        r.end[(k + 1) * LINES + i] = <int32_t>b.n
            b.data[b.n] = b'\n'
            b.n += 1
            r.lines += 1
        r.length = b.n

    cdef inline void put_stored(self, Buffer* b, Kind* t, Event* e) noexcept nogil:
        """The lines of a record that repeats."""
        cdef int64_t place = place_of(t, e)
        cdef Repeat* r = &self.repeats.place[place]
        cdef char* text = self.repeats.text + place * self.repeats.room
        if not holds(r, t, e):
            self.store(r, text, t, e)
        put_repeat(b, r, text, t, e)
        self.lines += r.lines

    cdef int64_t put_events(self, Event* first, int32_t* order, int64_t n) noexcept nogil:
        """Format events up to the first that needs Python, or up to a piece of text; return their number. -1: no memory."""
        cdef int64_t k
        cdef int32_t i, j, token
        cdef Event* e
        cdef Kind* kind
        cdef Template* t
        cdef Buffer b
        if not reserve(&self.out, PIECE + self.longest):
            return -1
        b = self.out                            # a copy, so that it is in registers
        for k in range(n):
            e = &first[order[k]]
            if e.kind == REC_OVERLAP or e.kind == REC_EMIT or e.kind == REC_ENQUEUE or b.n >= PIECE:
                n = k
                break
            kind = &self.kind[e.kind]
            token = self.follow_token(e)
            if e.cycle < self.first or e.cycle >= self.last:
                continue
            if kind.repeats and storable(kind, e):
                self.put_stored(&b, kind, e)
                continue
            for i in range(kind.first, kind.first + kind.n):
                t = &self.template[i]
                if not self.wanted(t, e, token):
                    continue
                for j in range(t.first, t.first + t.n):
                    put_item(&b, &self.part[j], e, self.column, self.table)
                b.data[b.n] = b'\n'
                b.n += 1
                self.lines += 1
        self.out = b
        return n

    def text(self, Trace trace not None, cycle_t before, said):
        """The next lines for records of cycles before the given one, b"" if there are no more; the records are then removed. `said` makes
        lines, or is None: `said.overlap(cycle, entry, with, job)` makes a WARN, `said.emitted(cycle, entry, value, name)` a component's
        event, `said.enqueued(cycle, row)` a command of a component, or an entry that the host wrote."""
        cdef int64_t done
        self.out.n = 0
        if self.arranged == 0:
            with nogil:
                self.arranged = arrange(&trace.tracer, before)
        while self.at < self.arranged and self.out.n < PIECE:
            with nogil:
                done = self.put_events(trace.tracer.event, trace.tracer.order + self.at, self.arranged - self.at)
            if done < 0:
                raise MemoryError("no memory for the lines of a trace")
            self.at += done
            if self.at < self.arranged and self.out.n < PIECE:
                self.put_message(&trace.tracer.event[trace.tracer.order[self.at]], said)
                self.at += 1
        if self.at == self.arranged:
            self.at = 0
            self.arranged = 0
            forget(&trace.tracer, before)
        return PyBytes_FromStringAndSize(self.out.data, self.out.n)

    cdef int put_message(self, Event* e, said) except -1:
        """Append a line that Python made; a file of any cycles contains all commands."""
        if e.kind == REC_ENQUEUE:
            line = said.enqueued(e.cycle, e.entry)
        elif not self.first <= e.cycle < self.last:
            return 0
        else:
            line = (said.emitted if e.kind == REC_EMIT else said.overlap)(e.cycle, e.entry, e.v[1], e.v[0])
        if line is None:
            return 0
        if not reserve(&self.out, len(line) + 1):
            raise MemoryError("no memory for the lines of a trace")
        memcpy(self.out.data + self.out.n, PyBytes_AS_STRING(line), len(line))      # no byte after it may be read
        self.out.n += len(line)
        self.out.data[self.out.n] = b'\n'
        self.out.n += 1
        self.lines += 1
        return 0

    def extend(self, list columns, list tables):
        """Replace the columns and tables by grown versions with more rows and more texts."""
        cdef int32_t k
        self.keep[0], self.keep[1] = columns, tables
        for k in range(self.n_tables):
            free(self.table[k])
            self.table[k] = NULL
        for k, column in enumerate(columns):
            self.column[k] = int64s(column, ANY)
        self.put_templates(self.keep[2], self.put_tables(tables))

    cdef str fault_of(self, Event* e, int64_t rows, int64_t units):
        """The reason why a record cannot become a line; None if it can."""
        cdef Template* t
        cdef Item* p
        cdef int64_t count
        cdef int32_t i, j
        if not 0 <= e.kind < self.kinds or e.kind == REC_EMIT:
            return f"is of kind {e.kind}"
        if not -1 <= e.entry < rows:
            return f"is of entry {e.entry} of {rows}"
        if e.kind == REC_ENQUEUE and e.entry < 0:
            return "is of no entry"
        if e.kind == REC_OVERLAP and not (e.entry >= 0 and 0 <= e.v[1] < rows):
            return f"tells an overlap of the entries {e.entry} and {e.v[1]} of {rows}"
        for i in range(self.kind[e.kind].first, self.kind[e.kind].first + self.kind[e.kind].n):
            t = &self.template[i]
            if e.entry < 0 and (t.only_if >= 0 or t.unit < NO_UNIT):
                return "is of no entry"
            if t.unit >= 0 and t.unit_value >= 0 and not -t.unit <= e.v[t.unit_value] < units - t.unit:
                return f"is of unit {e.v[t.unit_value]} of its kind"
            for j in range(t.first, t.first + t.n):
                p = &self.part[j]
                if e.entry < 0 and (p.kind == P_COLUMN or p.kind == P_TEXT_OF_COLUMN):
                    return "is of no entry"
                count = len(self.pieces[p.table])
                if p.kind == P_TEXT_OF_VALUE and e.v[p.at] != MISSING and not -p.base <= e.v[p.at] < count - p.base:
                    return f"has a text of number {e.v[p.at]} of {count}"
        return None

    def fault(self, Trace trace not None, int64_t rows, int64_t units, cycle_t since, cycle_t until):
        """The reason why records restored from a file are wrong, for cycles from `since` to below `until`, in words; None if they are
        right. `rows`, `units`: the numbers of entries and tracks."""
        cdef Event* e
        cdef int64_t k
        for k in range(trace.tracer.n):
            e = &trace.tracer.event[k]
            found = self.fault_of(e, rows, units)
            if found is None and not since <= e.cycle < until:
                found = f"is of cycle {e.cycle}, and the run stands at {since}"
            if found is not None:
                return f"record {k} {found}"
        return None

    def tokens(self):
        """`(left, start)` of each token group, from which formatting can continue."""
        return [(self.tokens_remaining[k], self.token_start[k]) for k in range(self.groups)]

    def count(self, int64_t lines):
        """Count lines that were written elsewhere."""
        self.lines += lines
