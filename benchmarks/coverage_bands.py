"""Mean coverage of the methods with a guarantee, and the band in which it should be.

    python benchmarks/coverage_bands.py results/results.json

Coverage is averaged over seeds, then over data sets. The band is that of such a mean with 99 % probability, each data set
Beta-binomial in its calibration and test points; seeds split the same points anew and are not counted as independent.
"""

import json
import math
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

results = json.loads(Path(sys.argv[1]).read_text())
parts = {case["data"]: case["parts"] for case in results["cases"]}
records = [record for case in results["cases"] for record in case["records"]]
print("| α | Method | Coverage | Band | |\n|---|---|---|---|---|")
for alpha in results["plan"]["alphas"]:
    variance = 0.0
    for _, n, tests in parts.values():
        k = math.ceil(round((1 - alpha) * (n + 1), 9))
        product, total = k * (n + 1 - k), n + 1
        variance += product / (total**2 * (total + 1)) + product / (total * (total + 1)) / tests
    half = 2.576 * math.sqrt(variance) / len(parts)
    low, high = 1 - alpha - half, 1 - alpha + half
    for method in results["plan"]["methods"]:
        coverage = defaultdict(list)
        for record in records:
            if (record["method"], record["alpha"]) == (method, alpha) and record["guarantee"].startswith("P("):
                coverage[record["data"]].append(record["metrics"]["coverage"])
        if coverage:
            mean = fmean(map(fmean, coverage.values()))
            word = "inside" if low <= mean <= high else "above" if mean > high else "below"
            print(f"| {alpha} | {method} | {mean:.4f} | {low:.4f} – {high:.4f} | {word} |")
