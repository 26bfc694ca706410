"""Which method is best on your data? Hide some measured values and predict them.

python examples/03_compare_methods.py
"""

import cdsa

cube = cdsa.open_demo().isel(time=slice(0, 2000))
methods = ["linear", "climatology", "knn", "cdsa"]
scores = cdsa.compare(cube, methods, hide="bursts:0.2", minutes=0.5)

table = cdsa.summarise(scores)
print(table.pivot(index="measurement", columns="method", values="mae")[methods])
for score in scores:
    print(score)
    print(score.table("gap")[["mae", "rmse", "cells"]])  # by length of the gap
