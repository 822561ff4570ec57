#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the cost grows: with processes, threads, stacks, live blocks and, for the size of the recording, with time.

    bench/growth.py --json growth.json --plots docs/plots      # 15 minutes on an idle machine
    bench/growth.py --axis threads --reps 1

Bare and recorded runs take turns; a figure is the difference of the minima. The slope is that of a line through the points on
logarithmic axes, from the first point at which the cost is twice that of the smallest: 1 is proportional, more is worse.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import bench

HERE = pathlib.Path(__file__).resolve().parent
DAY = 24 * 3600
TIMEOUT_SECONDS = 1800
AXES = {
    "processes": [1, 10, 30, 100, 300, 1000, 3000],
    "threads": [1, 4, 16, 64, 256, 1000],
    "sites": [10, 100, 1000, 10_000, 100_000, 1_000_000],
    "live": [1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000],
    "seconds": [1, 10, 60, 600, 3600, 6 * 3600, DAY],
}
UNITS = {"cpu": "s of CPU", "wall": "s", "rss": "MB", "file": "kB"}
PLOT = {"left": 70, "top": 40, "width": 460, "height": 260}
COLOURS = {"cpu": "#0072b2", "wall": "#d55e00", "rss": "#009e73", "file": "#cc79a7"}


def measure(argv, prefix, reps):
    runs = {"bare": [], "recorded": []}
    for _ in range(reps):
        for name, before in (("bare", []), ("recorded", prefix)):
            runs[name].append(bench.run(argv, {}, before, {}, TIMEOUT_SECONDS))
            if not runs[name][-1]["ok"]:
                sys.exit(f"growth.py: {' '.join(map(str, argv))} failed")
    bare, recorded = ({key: min(run[key] for run in of) for key in ("cpu", "wall", "rss")} for of in runs.values())
    added = {key: recorded[key] - bare[key] for key in bare}
    return added | {"bare": bare, "file": min(run["size"] for run in runs["recorded"]) / 1000}


def free_bytes():
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def sweep(axis, args, program):
    rows = []
    for count in AXES[axis]:
        if axis == "live" and count * 48 > free_bytes():
            print(f"live      {count:>11,}: not measured, no memory for it", flush=True)
            continue
        if axis == "seconds":
            done = subprocess.run([args.build / "made" / "make_day", str(count), "1000"], check=True, capture_output=True, text=True)
            row = {"file": int(done.stdout.split()[0]) / 1000}
        else:
            prefix = [f"{args.build}/heapgauge", "record", "-q", "-o", "{out}/run.hg", "--"]
            row = measure([program, axis, str(count)], prefix, args.reps)
        rows.append(row | {"count": count})
        print(f"{axis:9} {count:>11,}: " + ", ".join(f"{row[k]:.3f} {UNITS[k]}" for k in UNITS if k in row), flush=True)
    return rows


def slope(points):
    """Of the line through the logarithms, where the cost is more than that of a start; None: it does not grow."""
    points = [(n, y) for n, y in points if y > 0]
    least = min((y for _, y in points), default=0)
    points = [(math.log(n), math.log(y)) for n, y in points if y > 2 * least]
    if len(points) < 2:
        return None
    mean_x, mean_y = (sum(p[i] for p in points) / len(points) for i in (0, 1))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def ticks(low, high):
    return [10.0**e for e in range(math.floor(low), math.ceil(high) + 1)]


def draw(axis, rows, slopes):
    series = {key: [(r["count"], r[key]) for r in rows if r.get(key, 0) > 0] for key in UNITS if key in slopes}
    all_y = [y for points in series.values() for _, y in points]
    x0 = math.log10(rows[0]["count"])
    x1 = max(math.log10(rows[-1]["count"]), x0 + 1)
    y0, y1 = math.floor(math.log10(min(all_y))), math.ceil(math.log10(max(all_y)))

    def place(x, y):
        return (
            PLOT["left"] + (math.log10(x) - x0) / (x1 - x0) * PLOT["width"],
            PLOT["top"] + (1 - (math.log10(y) - y0) / max(y1 - y0, 1)) * PLOT["height"],
        )

    title = f"What recording adds, by {axis}"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{PLOT["left"] + PLOT["width"] + 190}" height="{PLOT["top"] + PLOT["height"] + 50}" role="img">',
        f"<title>{title}</title>",
        '<rect width="100%" height="100%" fill="#fff"/><g style="font: 12px system-ui, sans-serif; fill: #222">',
        f'<text x="8" y="20" font-weight="600">{title}</text>',
    ]
    for y in ticks(y0, y1):
        _, at = place(rows[0]["count"], y)
        out.append(f'<path d="M{PLOT["left"]} {at:.1f}h{PLOT["width"]}" stroke="#ddd"/>')
        out.append(f'<text x="{PLOT["left"] - 6}" y="{at + 4:.1f}" text-anchor="end">{y:g}</text>')
    for row in rows:
        at, _ = place(row["count"], 10.0**y0)
        out.append(f'<text x="{at:.1f}" y="{PLOT["top"] + PLOT["height"] + 18}" text-anchor="middle">{row["count"]:,}</text>')
    for number, (key, points) in enumerate(series.items()):
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*p) for p in points))
        out.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[key]}" stroke-width="2"/>')
        text = "flat" if slopes[key] is None else f"slope {slopes[key]:.2f}"
        at = PLOT["top"] + 14 + 18 * number
        out.append(f'<text x="{PLOT["left"] + PLOT["width"] + 10}" y="{at}" style="fill: {COLOURS[key]}">{UNITS[key]}, {text}</text>')
    return "\n".join([*out, "</g></svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--axis", choices=AXES, action="append", help="only this one; more than once: these")
    parser.add_argument("--most", type=int, help="no larger points")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures here")
    parser.add_argument("--plots", type=pathlib.Path, help="draw a plot for each axis into this folder")
    args = parser.parse_args()
    args.build = args.build.resolve()
    found = {}
    with tempfile.TemporaryDirectory(prefix="heapgauge-growth-") as name:
        program = pathlib.Path(name) / "growth"
        subprocess.run(["gcc", "-O2", "-g", "-pthread", HERE / "growth.c", "-o", program], check=True)
        for axis in args.axis or AXES:
            AXES[axis] = [n for n in AXES[axis] if not args.most or n <= args.most]
            rows = sweep(axis, args, program)
            slopes = {key: slope([(r["count"], r[key]) for r in rows]) for key in UNITS if key in rows[0]}
            print(f"{axis:9} slopes: " + ", ".join(f"{k} {'flat' if s is None else f'{s:.2f}'}" for k, s in slopes.items()), flush=True)
            found[axis] = {"rows": rows, "slopes": slopes}
            if args.plots:
                args.plots.mkdir(parents=True, exist_ok=True)
                (args.plots / f"growth-{axis}.svg").write_text(draw(axis, rows, slopes))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
