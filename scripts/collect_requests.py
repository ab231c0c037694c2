"""Join the runs of a study into its tables, verified."""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from speedbump.analyse.cells import summarise_cells
from speedbump.analyse.environments import describe_environments
from speedbump.analyse.guests import with_bundles
from speedbump.analyse.runs import read_runs, with_fault
from speedbump.analyse.sentinels import with_best
from speedbump.grid.environments import read_made
from speedbump.grid.protocol import PROTOCOL
from speedbump.measure.best import SENTINELS, find_best
from speedbump.plan.next_study import suggest_next
from speedbump.tables import CELLS, FAULTS, MEMORY_SAMPLES, PROFILES, REQUESTS, write_table


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="JSON file: run files of each experiment")
    parser.add_argument("--study", type=json.loads, required=True, help="JSON: what the report says of the study")
    parser.add_argument("--devices", type=Path, required=True, help="JSON file: which devices compute here")
    parser.add_argument(
        "--environments", type=Path, nargs="*", default=[], help="records of the environments that the study lists"
    )
    parser.add_argument("--bundles", nargs="*", default=[], help="files of make_bundle, of other machines")
    parser.add_argument("--origin", type=Path, required=True, help="file that tells this machine from its namesakes")
    parser.add_argument("--out", type=Path, required=True, help="the study's folder")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    listed = json.loads(args.runs.read_text())
    experiments = listed["experiments"]
    files = dict.fromkeys([*(file for runs in experiments.values() for file in runs), *listed["other_stacks"]])
    partial = args.study["partial"]
    own = read_runs(file for file in files if not partial or Path(file).exists())
    origin = args.origin.read_text().strip() if args.origin.exists() else None
    runs = with_bundles(own, args.study["machine"], origin, args.bundles)
    made = {file: made for file in args.environments if (made := read_made(file))}
    for file, one in made.items():
        if one.failed:
            runs = with_fault(runs, str(file), "no environment", f"{one.title}: {one.failed}")
    requests = with_best(runs.requests, _best_known(files))
    write_table(requests, REQUESTS, args.out / "requests.parquet")
    write_table(runs.samples, MEMORY_SAMPLES, args.out / "memory_samples.parquet")
    write_table(runs.profiles, PROFILES, args.out / "profiles.parquet")
    write_table(summarise_cells(requests, runs.records), CELLS, args.out / "cells.parquet")
    write_table(runs.faults, FAULTS, args.out / "faults.parquet")
    _write_json(
        describe_environments(runs.records, args.study["machine"], made.values()), args.out / "environment.json"
    )
    planned = {path for paths in experiments.values() for path in paths}
    progress = {"planned": len(planned), "done": sum(Path(path).exists() for path in planned)}
    following = suggest_next(args.study["suggests"], own.records, args.devices)
    _write_json({**args.study, "runs": progress, **following}, args.out / "study.json")
    for fault in runs.faults.iter_rows(named=True):
        print(f"{fault['problem']}: {fault['message']}", file=sys.stderr)


def _best_known(files: Iterable[str]) -> pl.DataFrame:
    """The best that the sentinels took in any study, on the machines and stacks that these runs are of."""
    rows = []
    for folder in {Path(file).parent: None for file in files}:
        for device, best in find_best(folder, PROTOCOL).items():
            times = {f"{name}_best_s": best.get(name) for name in SENTINELS}
            rows.append({"machine": folder.parent.name, "stack": folder.name, "device": device, **times})
    schema = dict.fromkeys(("machine", "stack", "device"), pl.String) | {
        f"{name}_best_s": pl.Float64 for name in SENTINELS
    }
    return pl.DataFrame(rows, schema=schema)


def _write_json(content: object, file: Path) -> None:
    file.write_text(json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
