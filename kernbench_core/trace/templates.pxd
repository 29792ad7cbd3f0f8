"""The format of a line as data: a template with its parts (`trace/format.pyx`)."""
from kernbench_core.trace.events cimport MISSING, Event
from kernbench_core.trace.text cimport Buffer, put_int, put_text
from kernbench_core.types cimport int32_t, int64_t

cdef enum:
    P_TEXT = 0
    P_VALUE = 1
    P_COLUMN = 2
    P_CYCLE = 3
    P_TEXT_OF_VALUE = 4
    P_TEXT_OF_COLUMN = 5

    SHARED = 3                # limit of the values that many records have in common
    OWN = 5                   # limit of the other values of such a record

cdef struct Item:
    int32_t kind              # P_TEXT ... P_TEXT_OF_COLUMN
    int32_t at                # index of the value or column
    int32_t table             # index of the table of texts
    int64_t base              # added to the value before a text is looked up
    const char* text          # for TEXT, the text; else text written before the value, unless the value is missing
    int64_t length            # [B] length of `text`

cdef struct Template:
    int32_t first             # index of its first part
    int32_t n                 # number of its parts
    int32_t only_if           # a column that must not be MISSING, ALWAYS or TOKEN_ENDS
    int32_t unit              # NO_UNIT, UNIT_OF_ENTRY, -3 - the column of the unit, or the number of the unit of value 0 ...
    int32_t unit_value        # ... plus this value of the record; -1: no addition

cdef struct Kind:             # of records
    int32_t first             # index of its first template
    int32_t n                 # number of its templates
    bint repeats              # whether lines are stored (`trace/repeats.pxd`)
    int32_t[SHARED] shared    # indices of values that many records of an entry have in common
    int32_t n_own             # number of the values that differ, besides the cycle; they are numbers
    int32_t[OWN] own          # indices of these values

cdef struct Text:
    const char* data          # the bytes of the text
    int64_t length            # [B] length of the text


cdef inline void put_item(Buffer* b, Item* p, Event* e, const int64_t** columns, Text** tables) noexcept nogil:
    cdef int64_t value = 0
    cdef Text* text
    if p.kind == P_VALUE or p.kind == P_TEXT_OF_VALUE:
        value = e.v[p.at]
    elif p.kind == P_COLUMN or p.kind == P_TEXT_OF_COLUMN:
        value = columns[p.at][e.entry]
    elif p.kind == P_CYCLE:
        value = e.cycle
    if value == MISSING:
        return
    put_text(b, p.text, p.length)
    if p.kind == P_TEXT:
        return
    if p.kind >= P_TEXT_OF_VALUE:
        text = &tables[p.table][value + p.base]
        put_text(b, text.data, text.length)
    else:
        put_int(b, value)
