"""The verbs of the `sifmod` command, one module each: thin layers over the library."""

PROGRAM = "sifmod"
