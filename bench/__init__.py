"""Benchmarks: sifmod beside what people use today, on the same machine and the same data, in alternation."""
