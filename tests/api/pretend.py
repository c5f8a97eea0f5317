"""A job's process that only pretends to work: it ends as the name of its source says.

Called as the real one is, with a folder of results to hand out before its arguments. It says in
`ran`, beside all jobs' folders, that it has begun.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from api.jobs.counts import CountWriter
from api.jobs.folder import JobFolder, hidden_sink
from api.jobs.worker import end_with


def main(results: str, folder: str, parent: str, messages: str) -> None:
    end_with(int(parent))
    job = JobFolder(Path(folder))
    lock = job.enter()
    if lock is None:
        sys.exit(3)
    with (job.path.parent / "ran").open("a") as ran:
        ran.write(f"{job.path.name}\n")
    request, said = job.request(), os.fdopen(int(messages), "w")
    print(json.dumps({"stage": "running", "progress": [1, 4]}), file=said, flush=True)
    files = []
    if request["sink"]:
        files = [str(hidden_sink(Path(request["sink"]), job.path.name))]
        Path(files[0]).write_text("rows\n")
    match Path(request["source"]).name:
        case "waits":
            while not (job.path.parent / "go").exists():
                time.sleep(0.01)
        case "has a child":
            # In a process group of its own, as Spark's Python workers are.
            child = subprocess.Popen(["sleep", "1000"], process_group=0)
            (job.path / "child").write_text(str(child.pid))
            signal.pause()
        case "missing":
            job.end({"status": "failed", "reason": "there are no events at 'missing'"})
            return
        case "bug":
            print("Traceback (most recent call last): it was here", file=sys.stderr, flush=True)
            job.end({"status": "failed", "reason": "ZeroDivisionError: division by zero"})
            return
        case "hoards":
            hoard = b"x" * 200_000_000
            while hoard:
                time.sleep(0.01)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exits":
            sys.exit(7)
    count(job)
    for path in Path(results).iterdir():
        shutil.copy(path, job.path)
    rows = {"aggregates": {"purchases": 3}, "matches": {"abandoned": 1}}
    kinds = ["aggregates", "matches"]
    done = {"events": 7, "seconds": {"run": 0.5}, "rows": rows, "kinds": kinds, "files": files}
    job.end({"status": "succeeded", **done})


def count(job: JobFolder) -> None:
    """Account for each operator of the plan: 7 rows in, 5 out, 2 milliseconds; not all as planned.

    An operator that the plan does not have ran as well.
    """
    ids = [operator["id"] for operator in job.request()["plan_document"]["operators"]]
    ids.append("join-0123456789ab")
    with CountWriter(job.counts) as counting:
        counting.put(
            7,
            {"purchases": 3, "abandoned": 1},
            {
                "rows_in": dict.fromkeys(ids, 7),
                "rows_out": dict.fromkeys(ids, 5),
                "nanoseconds": dict.fromkeys(ids, 2_000_000),
            },
            {
                "span_seconds": 7.0,
                "cpu_seconds": 0.25,
                "unclaimed_seconds": 0.02,
                "fallbacks": ["aseq has no kernel for opencl: computing on the CPU instead"],
                "trees": [
                    {
                        "what": "changed",
                        "batch": 3,
                        "queries": ["abandoned"],
                        "reason": "the rate of Cart went from 2 to 9 a second; these save 40%",
                        "old": {"abandoned": "((c ; v) ; b)"},
                        "new": {"abandoned": "(c ; (v ; b))"},
                    }
                ],
            },
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
