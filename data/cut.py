#!/usr/bin/env python3
"""Cut data/flights.csv out of the full New York flights table.

    python3 data/cut.py path/to/full/flights.csv > data/flights.csv

Keeps the flights of January 2013 in their original order, puts the row number in the full
table (counted from 1) in front as `id`, and writes the source's `NA` as an empty field.
Fails if the source is not the table that data/README.md describes.
"""

import csv
import sys

COLUMNS = (
    "year month day dep_time sched_dep_time dep_delay arr_time sched_arr_time arr_delay carrier "
    "flight tailnum origin dest air_time distance hour minute time_hour"
).split()
FULL_ROWS, KEPT_ROWS = 336_776, 27_004


def main(path):
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["id", *COLUMNS])
    full = kept = 0
    with open(path, newline="", encoding="utf-8") as source:
        rows = csv.reader(source)
        header = next(rows)
        if header != COLUMNS:
            sys.exit(f"unexpected columns: {header}")
        for full, row in enumerate(rows, start=1):
            if row[:2] == ["2013", "1"]:
                out.writerow([full, *("" if field == "NA" else field for field in row)])
                kept += 1
    if (full, kept) != (FULL_ROWS, KEPT_ROWS):
        sys.exit(f"expected {FULL_ROWS} rows and {KEPT_ROWS} kept, got {full} and {kept}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
