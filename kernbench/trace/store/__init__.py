"""Tables of a trace in memory and in pages: columns, packing, joins."""
