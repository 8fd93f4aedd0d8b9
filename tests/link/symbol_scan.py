#!/usr/bin/env python3
"""Finds object files that call the system's clock, random device, network, files or threads without being allowed to.

Usage: symbol_scan.py <nm> <source root> <folder of object files>...
       symbol_scan.py <nm> --self-test <C++ compiler>

Everything that the simulator runs takes time, randomness, storage and transport from the interfaces of src/runtime and
src/transport; only the real halves of these may reach for the system. The scan reads the undefined symbols of each
object file, so a call hidden in an inline function of a header is found too. tools/ is exempt.
"""

import os
import re
import subprocess
import sys
import tempfile

FORBIDDEN = re.compile(
    r"""^(
      clock_gettime | gettimeofday | time | clock | times
    | nanosleep | clock_nanosleep | usleep | sleep | poll | ppoll | select | epoll_\w+ | timerfd_\w+
    | open(at)?(64)? | __open(at)?(64)?_2 | creat(64)? | f?open64 | fopen(64)? | freopen(64)? | unlink | rename | mkdir
    | __(poll|ppoll|recvfrom)_chk  # as _FORTIFY_SOURCE names them
    | socket | socketpair | connect | bind | listen | accept4? | sendmsg | recvmsg | sendto | recvfrom | memfd_create | shm_open
    | getrandom | getentropy | s?rand(om)?(_r)? | [dlmen]rand48 | arc4random\w*
    | pthread_create | fork | vfork | posix_spawnp?
    | _ZNSt6chrono3_V21\d(system|steady|high_resolution)_clock3nowEv
    | _ZNSt6thread\w+ | _ZNSt13random_device\w+
    | _ZNSt(13basic_filebuf|14basic_ifstream|14basic_ofstream|13basic_fstream)\w+ | _ZNSt10filesystem\w+
    )$""",
    re.VERBOSE,
)

# Sources below src/ that may use them, and why.
ALLOWED = [
    r"runtime/real/.*",  # the real clock, random device, storage and threads
    r"transport/(tcp|shm|verbs|dpdk)/.*",  # the real networks
    r"transport/os/epoll_sleeper\.cc",  # how their threads sleep
    r"coordinator/state/sqlite\w*\.cc",  # a store of its own kind
    r"base/trace\.cc",  # spdlog stamps and writes log lines
]


def undefined_symbols(nm, path):
    output = subprocess.run([nm, "-u", "--format=posix", path], check=True, capture_output=True, text=True).stdout
    return {line.split()[0].split("@")[0] for line in output.splitlines() if line.strip()}


def violations(nm, path):
    return sorted(symbol for symbol in undefined_symbols(nm, path) if FORBIDDEN.match(symbol))


def scan(nm, root, folders):
    objects, allowed_used, found = 0, 0, []
    for top in folders:
        for folder, _, names in os.walk(top):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if not name.endswith(".cc.o") or "/src/" not in path:
                    continue
                source = path.rsplit("/src/", 1)[1][: -len(".o")]
                if not os.path.exists(os.path.join(root, "src", source)):
                    continue  # left over from a source that is gone
                objects += 1
                symbols = violations(nm, path)
                if any(re.fullmatch(pattern, source) for pattern in ALLOWED):
                    allowed_used += bool(symbols)
                    continue
                found += [f"src/{source}: uses {symbol}" for symbol in symbols]
    for line in found:
        print(line)
    print(f"{objects} object files, {allowed_used} with a permission they use, {len(found)} calls without one")
    return 1 if found or objects == 0 else 0


PLANTED = {
    "clock_gettime": "#include <time.h>\nlong f() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_nsec; }",
    "gettimeofday": "#include <sys/time.h>\nlong f() { timeval t; gettimeofday(&t, nullptr); return t.tv_usec; }",
    "time": "#include <time.h>\nlong f() { return time(nullptr); }",
    "open": "#include <fcntl.h>\nint f() { return open(\"x\", O_RDONLY); }",
    "openat": "#include <fcntl.h>\nint f() { return openat(3, \"x\", O_RDONLY); }",
    "fopen": "#include <stdio.h>\nvoid* f() { return fopen(\"x\", \"r\"); }",
    "socket": "#include <sys/socket.h>\nint f() { return socket(AF_INET, SOCK_STREAM, 0); }",
    "getrandom": "#include <sys/random.h>\nlong f(void* p) { return getrandom(p, 8, 0); }",
    "rand": "#include <stdlib.h>\nint f() { return rand(); }",
    "pthread_create": "#include <pthread.h>\nint f(pthread_t* t, void* (*g)(void*)) { return pthread_create(t, nullptr, g, t); }",
    "nanosleep": "#include <time.h>\nint f(timespec* t) { return nanosleep(t, t); }",
    "usleep": "#include <unistd.h>\nint f() { return usleep(1); }",
    "system_clock": "#include <chrono>\nlong f() { return std::chrono::system_clock::now().time_since_epoch().count(); }",
    "steady_clock": "#include <chrono>\nlong f() { return std::chrono::steady_clock::now().time_since_epoch().count(); }",
    "_ZNSt6thread": "#include <thread>\nvoid f() { std::thread([] {}).join(); }",
    "nanosleep ": "#include <thread>\nvoid f() { std::this_thread::sleep_for(std::chrono::seconds(1)); }",
    "random_device": "#include <random>\nunsigned f() { return std::random_device{}(); }",
    "ifstream": "#include <fstream>\nbool f() { std::ifstream in(\"x\"); return in.good(); }",
    "filesystem": "#include <filesystem>\nbool f() { return std::filesystem::exists(\"x\"); }",
    "": "#include <string>\n#include <mutex>\nint opened(int n) { static std::mutex m; std::lock_guard l(m); return n; }\n"
        "std::string f() { return std::to_string(opened(1)); }",
}


def self_test(nm, compiler):
    wrong = 0
    for expected, code in PLANTED.items():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "planted.cc")
            with open(path, "w", encoding="utf-8") as file:
                file.write(code + "\n")
            subprocess.run([compiler, "-std=c++20", "-O1", "-c", path, "-o", path + ".o"], check=True)
            symbols = violations(nm, path + ".o")
        good = any(expected.strip() in symbol for symbol in symbols) if expected else not symbols
        if not good:
            wrong += 1
            print(f"planted use of '{expected}': found {symbols}")
    print(f"{len(PLANTED)} planted files, {wrong} judged wrongly")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[2] == "--self-test":
        sys.exit(self_test(sys.argv[1], sys.argv[3]))
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(scan(sys.argv[1], sys.argv[2], sys.argv[3:]))
