"""Control groups that limit the memory of processes that a test starts."""

import os


def memory_group():
    """A folder for control groups of ours that limit memory, below the one that this process is in; None: it may make none."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    for _, controllers, path in lines:
        top, limit = (("/sys/fs/cgroup", "memory.max") if controllers == "" else
                      ("/sys/fs/cgroup/memory", "memory.limit_in_bytes") if "memory" in controllers.split(",") else
                      (None, None))
        if top is None:
            continue
        folder = f"{top}{path.rstrip('/')}/ramcore-test-{os.getpid()}"
        try:
            os.mkdir(folder)
        except OSError:
            continue
        if os.path.exists(os.path.join(folder, limit)):
            return folder, limit
        os.rmdir(folder)
    return None
