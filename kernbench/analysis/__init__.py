"""Questions about machines that take several runs, or data of real ones: what-if, probes, replayed NoC traffic."""
