"""Processes import what they run by its name, so it has a module of its own."""

from hammer.run import main

if __name__ == "__main__":
    main()
