#!/usr/bin/env python3
"""Checks every #include of the tree: layers and the rooms in them point down only, vendor headers stay in their folders.

Every name of the standard library that a file uses has to come from a header that the file or one of our headers below
it includes: the build precompiles the standard library, so that the compiler does not miss an include.

Both hold for src/ and include/. In tools/ and tests/ it is only looked whether a vendor header that takes long to compile
stays in its one source.

Usage: include_scan.py <source root> --layer name=dep,dep,... [--layer ...] --room layer/folder=layer/folder,... [...]
       include_scan.py --self-test

The layers and rooms and what each may use come from the build (CMakeLists.txt), so that there is one table of them. A
folder below a layer is a room; "layer/." is what lies in the layer's own folder. The self-test
plants one violation of every rule and demands that each is found.
"""

import os
import re
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')

# Vendor header (a pattern of the included path) -> files under src/ that may include it.
VENDOR_RULES = [
    (r"boost/circular_buffer", r"store/call_results\.h"),
    (r"boost/(?!circular_buffer)|asio\.hpp$", r"transport/tcp/asio\.h"),
    (r"spdlog/|fmt/", r"base/trace\.cc"),
    (r"google/protobuf/|.*\.pb\.h$", r"wire/.*|(client|master|backup|coordinator)/.*\.cc"),
    (r"CLI/|nlohmann/|prometheus/|civetweb", None),
    (r"gtest/|gmock/|benchmark/", None),
    (r"sqlite3\.h$", r"coordinator/state/sqlite[a-z_]*\.cc"),
    (r"urcu", r"runtime/.*"),
    (r"isa-l", r"base/.*\.cc"),
    (r"xxhash\.h$", r"base/.*\.cc"),
    (r"sodium", r"transport/datagram/packet_seal\.cc"),
    (r"openssl/", r"(base|transport)/.*\.cc"),
    (r"infiniband/|rdma/", r"transport/verbs/ibverbs\.h"),
    (r"rte_", r"transport/dpdk/eal\.h"),
]

# Vendor header (a pattern of the included path) -> the one source below tools/ and tests/ that includes it.
ONE_SOURCE = [
    (r"CLI/", "tools/support/command_line.cc"),
    (r"nlohmann/", "tools/support/json.cc"),
]

# Concrete clocks, transports and stores are named by tools/ and tests/, by their own folder, by the registry that maps a
# locator to a transport, and by the one place where the client library puts its process together.
CONCRETE = re.compile(r"^(transport/(tcp|shm|sim|verbs|dpdk)|runtime/(real|sim))/")
SIMULATED = re.compile(r"^(transport|runtime)/sim/")  # the simulated network runs in simulated time
CONCRETE_ALLOWED = re.compile(r"^(transport/registry/registry\.cc|client/.*\.cc|coordinator/state/sqlite\w*\.cc)$")

# Statuses and results are declared once, in the public headers; these forward to them.
FORWARDED = {("base/status.h", "ramcore/status.h"), ("base/result.h", "ramcore/result.h"),
             ("base/durability.h", "ramcore/durability.h")}

# Randomness and time that no seed controls, and results that differ between standard libraries.
FORBIDDEN_TEXT = [
    (re.compile(r"\bstd::(random_device|shuffle|\w+_distribution)\b"), r"runtime/real/.*"),
    (re.compile(r"\b__(builtin_ia32_)?rdtscp?\b|\b_rdtsc\b"), r"runtime/real/.*"),
]

# Header of the standard library -> what it declares, as a pattern of the name after `std::`. Names that several headers
# declare stand in each of them. A name that is nowhere is an error: it has to be added here.
STANDARD = {
    "algorithm": r"all_of|any_of|none_of|binary_search|clamp|copy|copy_n|count(_if)?|equal|fill|fill_n|find(_if)?(_not)?"
                 r"|for_each|is_sorted|lexicographical_compare|lower_bound|upper_bound|max|min|minmax|(min|max)_element|merge"
                 r"|partition|ranges|remove(_if)?|replace|reverse|rotate|shuffle|sort|stable_sort|swap_ranges|transform|unique",
    "array": r"array|to_array|begin|end|size|data|tuple_size_v",
    "atomic": r"atomic(_\w+)?|memory_order(_\w+)?",
    "bit": r"bit_\w+|countl_\w+|countr_\w+|endian|has_single_bit|popcount|rotl|rotr",
    "charconv": r"from_chars|to_chars|from_chars_result",
    "chrono": r"chrono",
    "compare": r"strong_ordering|weak_ordering|partial_ordering",
    "concepts": r"same_as|convertible_to|derived_from|invocable|integral|unsigned_integral",
    "condition_variable": r"condition_variable|cv_status",
    "coroutine": r"coroutine_\w+|suspend_(never|always)|noop_coroutine",
    "cstddef": r"byte|ptrdiff_t|size_t|nullptr_t|max_align_t|to_integer",
    "cstdint": r"u?int(8|16|32|64|ptr)_t",
    "cstdio": r"fflush|f?printf|snprintf|fputs|fwrite|fopen|fclose|FILE",
    "cstdlib": r"abort|aligned_alloc|calloc|exit|free|getenv|malloc|realloc|strto\w+",
    "cstring": r"mem(cpy|set|move|cmp|chr)|str(chr|error|len|cmp|ncmp)",
    "deque": r"deque",
    "filesystem": r"filesystem",
    "fstream": r"[io]?fstream",
    "functional": r"function|greater|less|hash|invoke|plus|ref|cref",
    "initializer_list": r"initializer_list",
    "ios": r"ios|streamsize",
    "istream": r"istream|ios|streamsize",
    "iterator": r"(back_)?inserter|\w+_iterator(_tag)?|begin|end|size|data|prev|next|advance|distance",
    "limits": r"numeric_limits",
    "list": r"list|erase(_if)?|prev|next",
    "map": r"(multi)?map|erase(_if)?|prev|next",
    "memory": r"\w+_ptr|\w+_pointer_cast|make_(unique|shared)(_for_overwrite)?|allocator\w*|addressof|construct_at|destroy_at|to_address",
    "mutex": r"mutex|\w+_lock|lock_guard|call_once|once_flag|adopt_lock|defer_lock",
    "new": r"bad_alloc|align_val_t|nothrow|launder|hardware_\w+",
    "numeric": r"accumulate|gcd|iota|midpoint|reduce",
    "optional": r"optional|nullopt|in_place",
    "ostream": r"ostream|ios|streamsize",
    "random": r"random_device|\w+_engine|mt19937(_64)?|\w+_distribution",
    "set": r"(multi)?set|erase(_if)?|prev|next",
    "span": r"span|as_(writable_)?bytes|dynamic_extent",
    "sstream": r"[io]?stringstream",
    "stdexcept": r"(?!system_)\w+_error|out_of_range|invalid_argument",
    "string": r"string|to_string|sto\w+|erase(_if)?|char_traits|getline",
    "string_view": r"string_view",
    "system_error": r"err(c|or_code|or_category)|system_category|generic_category|make_error_code|system_error",
    "thread": r"j?thread|this_thread",
    "tuple": r"tuple|tie|make_tuple|get|apply|tuple_\w+",
    "type_traits": r"\w+_v|\w+_t|(true|false)_type|integral_constant",
    "unordered_map": r"unordered_map|erase_if",
    "unordered_set": r"unordered_set|erase_if",
    "utility": r"exchange|forward|move|pair|make_pair|swap|in_place|as_const|get|declval|index_sequence|make_index_sequence|unreachable",
    "variant": r"variant|monostate|visit|get|get_if|holds_alternative",
    "vector": r"vector|erase(_if)?|begin|end|size|prev|next",
}
STANDARD_NAME = re.compile(r"\bstd::(\w+)")
# What the standard itself promises about its headers: a container brings initializer_list and the access functions.
BRINGS = {"condition_variable": {"mutex"}, "istream": {"ios"}, "ostream": {"ios"}, "fstream": {"ios", "istream", "ostream"},
          "sstream": {"ios", "istream", "ostream"}, "filesystem": {"chrono", "string"}, "thread": {"chrono"}}


def headers_of(name):
    return {header for header, pattern in STANDARD.items() if re.fullmatch(pattern, name)}


class Scan:
    def __init__(self, root, layers, rooms):
        self.root = root
        self.layers = layers  # name -> set of layers it may use
        self.rooms = rooms  # "layer/folder" -> set of rooms of the same layer it may use
        self.arrows = {}  # (room, room that it uses) -> includes
        self.found = []
        self.files = 0
        self.drivers = 0  # files below tools/ and tests/
        self.standard = {}  # file -> the standard headers that it and our headers below it include
        self.uses = {}  # file -> name after std:: -> first line

    def report(self, path, line, text):
        self.found.append(f"{path}:{line}: {text}")

    def run(self):
        for path in self.sources_below("src", "include"):
            self.scan_file(path)
        for path, names in self.uses.items():
            for name, number in names.items():
                self.check_standard(path, number, name)
        for path in self.sources_below("tools", "tests"):
            self.drivers += 1
            self.scan_driver(path)
        self.check_circles()
        return self.found

    def sources_below(self, *tops):
        for top in tops:
            for folder, folders, names in os.walk(os.path.join(self.root, top)):
                folders.sort()
                for name in sorted(names):
                    if name.endswith((".h", ".cc")):
                        yield os.path.relpath(os.path.join(folder, name), self.root)

    def scan_driver(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                match = INCLUDE.match(line)
                for pattern, source in ONE_SOURCE if match else ():
                    if re.match(pattern, match.group(2)) and path != source:
                        self.report(path, number, f"vendor header outside its one source, {source}: {match.group(2)}")

    def check_circles(self):
        """The table itself: a room that may use one which may use it, over however many others, is no room."""
        self.circles = 0
        for table in (self.layers, self.rooms):
            for name in table:
                seen, waiting = set(), list(table[name])
                while waiting:
                    used = waiting.pop()
                    if used not in seen:
                        seen.add(used)
                        waiting += table.get(used, ())
                if name in seen:
                    self.circles += 1
                    self.report("CMakeLists.txt", 1, f"{name} may use itself over others: a circle")

    def room_of(self, inside):
        """The room of a file, by its path from src/; None: its layer has no rooms."""
        parts = inside.split("/")
        if len(parts) == 2:
            own = f"{parts[0]}/."
            return own if own in self.rooms else None
        return "/".join(parts[:2])

    def is_in_its_rooms(self, path, number, target):
        used = self.room_of(target)
        own = self.room_of(path[len("src/"):])
        for room in (own, used):
            if room is not None and room not in self.rooms:
                self.report(path, number, f"src/{room}/ is not a room of the build: {target}")
                return False
        if used == own:
            return True
        self.arrows[own, used] = self.arrows.get((own, used), 0) + 1
        same_layer = target.split("/")[0] == path.split("/")[1]
        if same_layer and used not in self.rooms.get(own, ()):
            self.report(path, number, f"{own} may not use {used}: {target}")
            return False
        return True

    def standard_headers(self, path):
        if path in self.standard:
            return self.standard[path]
        found = self.standard[path] = set()
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            for match in filter(None, map(INCLUDE.match, file)):
                if match.group(1) == "<":
                    found |= {match.group(2)} | BRINGS.get(match.group(2), set())
                    continue
                for folder in ("src", "include"):
                    below = f"{folder}/{match.group(2)}"
                    if os.path.exists(os.path.join(self.root, below)):
                        found |= self.standard_headers(below)
        return found

    def check_standard(self, path, number, name):
        headers = headers_of(name)
        if not headers:
            self.report(path, number, f"std::{name}: STANDARD in include_scan.py does not say what declares it")
        elif not headers & self.standard_headers(path):
            self.report(path, number, f"std::{name} without <{'> or <'.join(sorted(headers))}>")

    def scan_file(self, path):
        self.files += 1
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            lines = file.read().split("\n")
        if path.endswith(".h") and not any(line.strip() == "#pragma once" for line in lines):
            self.report(path, 1, "header without #pragma once")
        quoted = []
        uses = self.uses[path] = {}
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            for name in STANDARD_NAME.findall(line.split("//")[0]):
                uses.setdefault(name, number)
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
        generated = target.endswith(".pb.h")
        if not generated and not self.is_in_its_rooms(path, number, target):
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
ROOMS_FOR_TEST = {
    "runtime/.": set(),
    "runtime/real": {"runtime/."},
    "runtime/sim": {"runtime/."},
    "transport/.": set(),
    "transport/session": {"transport/."},
    "transport/tcp": {"transport/.", "transport/session"},
    "transport/sim": {"transport/.", "transport/session"},
    "log/memory": set(),
    "log/.": {"log/memory"},
    "coordinator/state": set(),
    "coordinator/.": {"coordinator/state"},
    "master/requests": set(),
    "master/.": {"master/requests"},
}

# (file, content, part of the message expected; None: the file is fine)
PLANTED = [
    ("src/base/up.cc", '#include "runtime/task.h"\n', "base may not use runtime"),
    ("src/transport/sibling.cc", '#include "log/memory/segment.h"\n', "transport may not use log"),
    ("src/log/sibling.cc", '#include "transport/transport.h"\n', "log may not use transport"),
    ("src/master/sibling.cc", '#include "coordinator/coordinator.h"\n', "master may not use coordinator"),
    ("src/coordinator/sibling.cc", '#include "master/master.h"\n', "coordinator may not use master"),
    ("src/rpc/up.h", '#pragma once\n#include "client/client.h"\n', "rpc may not use client"),
    ("src/rpc/api.cc", '#include "ramcore/client.h"\n', "above rpc"),
    ("src/transport/tcp/tcp.cc", "#include <boost/asio.hpp>\n", "vendor header"),
    ("src/master/asio.cc", "#include <boost/asio.hpp>\n", "vendor header"),
    ("src/master/ring.cc", "#include <boost/circular_buffer.hpp>\n", "vendor header"),
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
    ("src/log/random.cc", "#include <random>\nint f() { return std::random_device{}(); }\n", "not allowed here"),
    ("src/log/shuffle.cc", "#include <algorithm>\nvoid f() { std::shuffle(a, b, c); }\n", "not allowed here"),
    ("src/log/tsc.cc", "auto f() { return __rdtsc(); }\n", "not allowed here"),
    ("include/ramcore/task.h", "#pragma once\n#include <coroutine>\n", "no coroutines"),
    ("include/ramcore/inner.h", '#pragma once\n#include "rpc/call.h"\n', "internal"),
    ("src/transport/tcp/asio.h", "#pragma once\n#include <utility>\n#include <boost/asio.hpp>\n", None),
    ("src/base/trace.cc", "#include <spdlog/spdlog.h>\n", None),
    ("src/coordinator/state/sqlite_state_store.cc", "#include <sqlite3.h>\n", None),
    ("src/client/stub.cc", '#include "rpc/call.h"\n#include "wire/control.pb.h"\n#include "ramcore/client.h"\n', None),
    ("src/runtime/real/clock.cc", '#include "runtime/real/tsc.h"\nauto f() { return __rdtsc(); }\n', None),
    ("src/transport/sim/network.cc", '#include "runtime/sim/sim_scheduler.h"\n', None),
    ("src/transport/tcp/clock.cc", '#include "runtime/sim/sim_clock.h"\n', "concrete"),
    ("src/log/missing.cc", "#include <map>\nstd::vector<int> x();\n", "std::vector without <vector>"),
    ("src/log/missing_in_own.h", "#pragma once\nstd::span<int> x();\n", "std::span without <span>"),
    ("src/log/one_of_two.cc", "#include <string>\nint f(std::string& x) { return std::erase(x, 'x'); }\n", None),
    ("src/log/unknown.cc", "void f() { std::frobnicate(); }\n", "does not say what declares it"),
    ("src/log/brings.h", '#pragma once\n#include <optional>\n#include "runtime/brings.h"\n', None),
    ("src/runtime/brings.h", "#pragma once\n#include <utility>\n", None),
    ("src/log/brought.cc", '#include "log/brings.h"\nstd::optional<int> x = std::exchange(y, 1);\n', None),
    ("src/transport/up.cc", '#include "transport/session/handshake.h"\n', "transport/. may not use transport/session"),
    ("src/transport/session/up.cc", '#include "transport/tcp/x.h"\n', "transport/session may not use transport/tcp"),
    ("src/transport/tcp/sibling.cc", '#include "transport/sim/x.h"\n', "transport/tcp may not use transport/sim"),
    ("src/log/memory/up.cc", '#include "log/log.h"\n', "log/memory may not use log/."),
    ("src/master/requests/up.cc", '#include "master/master.h"\n', "master/requests may not use master/."),
    ("src/log/attic/x.cc", '#include "log/memory/segment.h"\n', "src/log/attic/ is not a room"),
    ("src/rpc/room/x.cc", '#include "rpc/call.h"\n', "src/rpc/room/ is not a room"),
    ("src/log/down.cc", '#include "log/memory/segment.h"\n', None),
    ("src/master/other_layer.cc", '#include "log/memory/segment.h"\n', None),
    ("tools/rc/flags.cc", "#include <CLI/CLI.hpp>\n", "outside its one source, tools/support/command_line.cc"),
    ("tools/support/flags.h", "#pragma once\n#include <CLI/App.hpp>\n", "outside its one source"),
    ("tests/durability/journal.cc", '#include "nlohmann/json.hpp"\n', "outside its one source, tools/support/json.cc"),
    ("tests/sim/json.h", "#pragma once\n#include <nlohmann/json_fwd.hpp>\n", "outside its one source"),
    ("tools/support/command_line.cc", "#include <CLI/CLI.hpp>\n", None),
    ("tools/support/json.cc", "#include <nlohmann/json.hpp>\n", None),
    ("tools/rc/own.cc", '#include "tools/support/json.h"\n', None),
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
            found = [f for f in Scan(root, LAYERS_FOR_TEST, ROOMS_FOR_TEST).run()]
        if expected is None and found:
            wrong.append(f"{path}: should be fine, but: {found}")
        if expected is not None and not (len(found) >= 1 and all(f.startswith(path) and expected in f for f in found)):
            wrong.append(f"{path}: expected '{expected}', got {found}")
    circle = {**ROOMS_FOR_TEST, "log/memory": {"log/."}}
    with tempfile.TemporaryDirectory() as root:
        found = Scan(root, LAYERS_FOR_TEST, circle).run()
    if len(found) != 2 or not all("a circle" in line for line in found):
        wrong.append(f"a circle of rooms in the table: {found}")
    for line in wrong:
        print(line)
    print(f"{len(PLANTED) + 1} planted faults, {len(wrong)} judged wrongly")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root, tables = arguments[0], {"--layer": {}, "--room": {}}
    rest = arguments[1:]
    while rest:
        if rest[0] not in tables or len(rest) < 2:
            sys.exit(__doc__)
        name, _, depends = rest[1].partition("=")
        tables[rest[0]][name] = set(filter(None, depends.split(",")))
        rest = rest[2:]
    scan = Scan(root, tables["--layer"], tables["--room"])
    for line in scan.run():
        print(line)
    upward = sum(" may not use " in line for line in scan.found)
    print(f"{len(scan.layers)} layers, {len(scan.rooms)} rooms, {len(scan.arrows)} arrows between rooms, upward {upward}, "
          f"circles {scan.circles}")
    print(f"{scan.files} files and {scan.drivers} of tools and tests, {len(scan.found)} includes or calls against the rules")
    return 1 if scan.found or scan.files == 0 or scan.drivers == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
