"""`python -m cdsa` is the command `cdsa`."""

from cdsa.cli import main

if __name__ == "__main__":
    main()
