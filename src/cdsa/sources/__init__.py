"""Where cubes come from: the user's own files and named data sets."""
