"""Jobs: a queue, a process for each that runs, and what came of them.

`queue` decides what runs and when, `process` starts and ends processes, `folder` is what the
service and a process say to each other through files, and `worker` is what runs in the process.
"""
