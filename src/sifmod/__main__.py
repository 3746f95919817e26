"""`python -m sifmod`; the launcher of sifmod's module runs it as well."""

from sifmod.cli import main

if __name__ == "__main__":
    main()
