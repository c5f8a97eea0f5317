"""A clock that can be set for a process and all that it starts, by a library put before libc's."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# The time of day is what libc says and as many seconds as the file has; other clocks stay.
_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long offset(void) {
    const char *path = getenv("SHEAF_TEST_CLOCK");
    FILE *file = path ? fopen(path, "r") : NULL;
    long seconds = 0;
    if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, at);
    if (result == 0 && clock == CLOCK_REALTIME) at->tv_sec += offset();
    return result;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


@dataclass(frozen=True)
class Clock:
    """A clock of the time of day; `environment` puts a process under it."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self.folder / "clock.so"),
            "SHEAF_TEST_CLOCK": str(self.folder / "offset"),
        }

    def set(self, seconds: int) -> None:
        """So many seconds ahead of the true time from now on; fewer than none are behind it."""
        draft = self.folder / "offset.new"
        draft.write_text(str(seconds))
        draft.replace(self.folder / "offset")


def made_clock(folder: Path) -> Clock | None:
    """A clock that is right until it is set; None where there is no compiler of C."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source = folder / "clock.c"
    source.write_text(_SOURCE)
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", folder / "clock.so", source, "-ldl"]
    subprocess.run(command, check=True)
    clock = Clock(folder)
    clock.set(0)
    return clock
