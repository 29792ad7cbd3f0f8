"""Networks of routers that move flits (docs/model/flits.md)."""
