"""Which method is best on your data? Hide some of what was measured, and ask for it back.

python examples/03_compare_methods.py
"""

import cdsa

cube = cdsa.open_demo().isel(time=slice(0, 2000))
for name in ("linear", "climatology", "knn", "cdsa"):
    minutes = 0.5 if name == "cdsa" else None
    score = cdsa.score(cube, name, hide="bursts:0.2", minutes=minutes)
    print(f"\n{name}: {score.table()['mae'].iloc[0]:.3f} {score.unit}")
    print(score.table("gap")[["mae", "rmse", "cells"]])
