"""Networks: plain modules with `forward(values, observed) -> guess`, all (b, t, l, m).

They know nothing of cubes, files, losses or devices.
"""
