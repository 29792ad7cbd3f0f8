cpdef line_of(object frame)
