#!/usr/bin/env python3
"""Checks every #include of the tree: layers point down only, vendor headers stay in their folders.

Usage: include_scan.py <source root> --layer name=dep,dep,... [--layer ...]
       include_scan.py --self-test

The layers and what each may use come from the build (CMakeLists.txt), so that there is one table of them. The self-test
plants one violation of every rule and demands that each is found.
"""

import os
import re
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')

# Vendor header (a pattern of the included path) -> files under src/ that may include it.
VENDOR_RULES = [
    (r"boost/|asio\.hpp$", r"transport/tcp/asio\.h"),
    (r"spdlog/|fmt/", r"base/trace\.cc"),
    (r"google/protobuf/|.*\.pb\.h$", r"wire/.*|(client|master|backup|coordinator)/.*\.cc"),
    (r"CLI/|nlohmann/|prometheus/|civetweb", None),
    (r"gtest/|gmock/|benchmark/", None),
    (r"sqlite3\.h$", r"coordinator/sqlite[a-z_]*\.cc"),
    (r"urcu", r"runtime/.*"),
    (r"xxhash\.h$|isa-l", r"base/.*\.cc"),
    (r"openssl/", r"(base|transport)/.*\.cc"),
    (r"infiniband/|rdma/", r"transport/verbs/.*\.cc"),
    (r"rte_", r"transport/dpdk/.*\.cc"),
]

# Concrete clocks, transports and stores are named by tools/ and tests/, by their own folder, by the registry that maps a
# locator to a transport, and by the one place where the client library puts its process together.
CONCRETE = re.compile(r"^(transport/(tcp|shm|sim|verbs|dpdk)|runtime/(real|sim))/")
SIMULATED = re.compile(r"^(transport|runtime)/sim/")  # the simulated network runs in simulated time
CONCRETE_ALLOWED = re.compile(r"^(transport/registry\.cc|client/.*\.cc)$")

# Statuses and results are declared once, in the public headers; these forward to them.
FORWARDED = {("base/status.h", "ramcore/status.h"), ("base/result.h", "ramcore/result.h"),
             ("base/durability.h", "ramcore/durability.h")}

# Randomness and time that no seed controls, and results that differ between standard libraries.
FORBIDDEN_TEXT = [
    (re.compile(r"\bstd::(random_device|shuffle|\w+_distribution)\b"), r"runtime/real/.*"),
    (re.compile(r"\b__(builtin_ia32_)?rdtscp?\b|\b_rdtsc\b"), r"runtime/real/.*"),
]


class Scan:
    def __init__(self, root, layers):
        self.root = root
        self.layers = layers  # name -> set of layers it may use
        self.found = []
        self.files = 0

    def report(self, path, line, text):
        self.found.append(f"{path}:{line}: {text}")

    def run(self):
        for top in ("src", "include"):
            for folder, folders, names in os.walk(os.path.join(self.root, top)):
                folders.sort()
                for name in sorted(names):
                    if name.endswith((".h", ".cc")):
                        self.scan_file(os.path.relpath(os.path.join(folder, name), self.root))
        return self.found

    def scan_file(self, path):
        self.files += 1
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            lines = file.read().split("\n")
        if path.endswith(".h") and not any(line.strip() == "#pragma once" for line in lines):
            self.report(path, 1, "header without #pragma once")
        quoted = []
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if match:
                if match.group(1) == '"':
                    quoted.append(match.group(2))
                self.check_include(path, number, match.group(1), match.group(2))
            elif path.startswith("src/"):
                for pattern, allowed in FORBIDDEN_TEXT:
                    code = line.split("//")[0]
                    if pattern.search(code) and not re.fullmatch(allowed, path[len("src/"):]):
                        self.report(path, number, f"not allowed here: {pattern.search(code).group(0)}")
        if path.startswith("src/") and path.endswith(".cc"):
            own = path[len("src/"):-len(".cc")] + ".h"
            if os.path.exists(os.path.join(self.root, "src", own)) and (not quoted or quoted[0] != own):
                self.report(path, 1, f'"{own}" must be the first include: that proves that it compiles alone')

    def check_include(self, path, number, kind, target):
        if path.startswith("include/"):
            if kind == '"' and not target.startswith("ramcore/"):
                self.report(path, number, f"public header includes an internal one: {target}")
            if kind == "<" and ("/" in target and not target.startswith("sys/") or target == "coroutine"):
                self.report(path, number, f"public header includes <{target}>: only the standard library, no coroutines")
            return
        inside = path[len("src/"):]
        layer = inside.split("/")[0]
        if layer not in self.layers:
            self.report(path, number, f"src/{layer}/ is not a layer of the build")
            return
        for pattern, allowed in VENDOR_RULES:
            if re.match(pattern, target):
                if allowed is None or not re.fullmatch(allowed, inside):
                    self.report(path, number, f"vendor header outside its folder: {target}")
                    return
        if kind != '"':
            return
        if ".." in target.split("/"):
            self.report(path, number, f"include is not written from the root of src/: {target}")
            return
        used = target.split("/")[0]
        if used == "ramcore":
            forwarded = (inside, target) in FORWARDED
            if not forwarded and "client" != layer and "client" not in self.layers[layer]:
                self.report(path, number, f"the application's API is above {layer}: {target}")
            return
        if used not in self.layers or "/" not in target:
            self.report(path, number, f"include is not written from the root of src/ or include/: {target}")
            return
        if used != layer and used not in self.layers[layer]:
            self.report(path, number, f"{layer} may not use {used}: {target}")
            return
        concrete = CONCRETE.match(target)
        if SIMULATED.match(inside) and SIMULATED.match(target):
            return
        if concrete and not inside.startswith(concrete.group(0)) and not CONCRETE_ALLOWED.match(inside):
            self.report(path, number, f"a concrete transport, clock or store is named only by tools and tests: {target}")


LAYERS_FOR_TEST = {
    "base": set(),
    "runtime": {"base"},
    "wire": {"base", "runtime"},
    "transport": {"base", "runtime", "wire"},
    "log": {"base", "runtime", "wire"},
    "rpc": {"base", "runtime", "wire", "transport"},
    "client": {"base", "runtime", "wire", "transport", "rpc"},
    "master": {"base", "runtime", "wire", "transport", "rpc", "client", "log"},
    "coordinator": {"base", "runtime", "wire", "transport", "rpc", "client"},
}

# (file, content, part of the message expected; None: the file is fine)
PLANTED = [
    ("src/base/up.cc", '#include "runtime/task.h"\n', "base may not use runtime"),
    ("src/transport/sibling.cc", '#include "log/segment.h"\n', "transport may not use log"),
    ("src/log/sibling.cc", '#include "transport/transport.h"\n', "log may not use transport"),
    ("src/master/sibling.cc", '#include "coordinator/coordinator.h"\n', "master may not use coordinator"),
    ("src/coordinator/sibling.cc", '#include "master/master.h"\n', "coordinator may not use master"),
    ("src/rpc/up.h", '#pragma once\n#include "client/client.h"\n', "rpc may not use client"),
    ("src/rpc/api.cc", '#include "ramcore/client.h"\n', "above rpc"),
    ("src/transport/tcp/tcp.cc", "#include <boost/asio.hpp>\n", "vendor header"),
    ("src/log/trace.cc", "  #  include <spdlog/spdlog.h>\n", "vendor header"),
    ("src/master/pb.h", "#pragma once\n#include <google/protobuf/message.h>\n", "vendor header"),
    ("src/master/pb2.h", '#pragma once\n#include "wire/control.pb.h"\n', "vendor header"),
    ("src/client/cli.cc", "#include <CLI/CLI.hpp>\n", "vendor header"),
    ("src/coordinator/state.cc", "#include <sqlite3.h>\n", "vendor header"),
    ("src/master/rcu.cc", "#include <urcu-qsbr.h>\n", "vendor header"),
    ("src/rpc/concrete.cc", '#include "transport/tcp/tcp_transport.h"\n', "concrete"),
    ("src/master/clock.cc", '#include "runtime/real/system_clock.h"\n', "concrete"),
    ("src/wire/dots.cc", '#include "../base/status.h"\n', "not written from the root"),
    ("src/wire/bare.cc", '#include "status.h"\n', "not written from the root"),
    ("src/wire/once.h", "int x();\n", "#pragma once"),
    ("src/extra/x.cc", '#include "base/status.h"\n', "not a layer"),
    ("src/master/own.h", "#pragma once\n", None),
    ("src/master/own.cc", '#include "base/status.h"\n#include "master/own.h"\n', "first include"),
    ("src/log/random.cc", "int f() { return std::random_device{}(); }\n", "not allowed here"),
    ("src/log/shuffle.cc", "void f() { std::shuffle(a, b, c); }\n", "not allowed here"),
    ("src/log/tsc.cc", "auto f() { return __rdtsc(); }\n", "not allowed here"),
    ("include/ramcore/task.h", "#pragma once\n#include <coroutine>\n", "no coroutines"),
    ("include/ramcore/inner.h", '#pragma once\n#include "rpc/call.h"\n', "internal"),
    ("src/transport/tcp/asio.h", "#pragma once\n#include <utility>\n#include <boost/asio.hpp>\n", None),
    ("src/base/trace.cc", "#include <spdlog/spdlog.h>\n", None),
    ("src/coordinator/sqlite_state_store.cc", "#include <sqlite3.h>\n", None),
    ("src/client/stub.cc", '#include "rpc/call.h"\n#include "wire/control.pb.h"\n#include "ramcore/client.h"\n', None),
    ("src/runtime/real/clock.cc", '#include "runtime/real/tsc.h"\nauto f() { return __rdtsc(); }\n', None),
    ("src/transport/sim/network.cc", '#include "runtime/sim/sim_scheduler.h"\n', None),
    ("src/transport/tcp/clock.cc", '#include "runtime/sim/sim_clock.h"\n', "concrete"),
    ("src/log/comment.cc", "// std::shuffle is not used: its result differs between libraries\n", None),
]


def self_test():
    wrong = []
    for path, content, expected in PLANTED:
        with tempfile.TemporaryDirectory() as root:
            # A file under test may need its neighbour (own.h for own.cc); the neighbours that are fine are always there.
            files = {p: c for p, c, e in PLANTED if e is None}
            files[path] = content
            for name, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(text)
            found = [f for f in Scan(root, LAYERS_FOR_TEST).run()]
        if expected is None and found:
            wrong.append(f"{path}: should be fine, but: {found}")
        if expected is not None and not (len(found) >= 1 and all(f.startswith(path) and expected in f for f in found)):
            wrong.append(f"{path}: expected '{expected}', got {found}")
    for line in wrong:
        print(line)
    print(f"{len(PLANTED)} planted files, {len(wrong)} judged wrongly")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root, layers = arguments[0], {}
    rest = arguments[1:]
    while rest:
        if rest[0] != "--layer" or len(rest) < 2:
            sys.exit(__doc__)
        name, _, depends = rest[1].partition("=")
        layers[name] = set(filter(None, depends.split(",")))
        rest = rest[2:]
    scan = Scan(root, layers)
    for line in scan.run():
        print(line)
    print(f"{scan.files} files, {len(scan.found)} includes or calls against the rules")
    return 1 if scan.found or scan.files == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
