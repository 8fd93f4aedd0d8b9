#!/usr/bin/env python3
"""Looks whether programs and libraries have what makes a wrong write hard to exploit (cmake/CompilerFlags.cmake).

Usage: hardening_scan.py <readelf> <program or library>...
       hardening_scan.py <readelf> --self-test <C++ compiler>
"""

import os
import re
import subprocess
import sys
import tempfile


def read(readelf, option, path):
    return subprocess.run([readelf, "--wide", option, path], check=True, capture_output=True, text=True).stdout


def missing(readelf, path):
    """What it does not have."""
    header = read(readelf, "--file-header", path)
    segments = read(readelf, "--program-headers", path)
    dynamic = read(readelf, "--dynamic", path)
    symbols = read(readelf, "--dyn-syms", path)
    # "GNU_STACK 0x0 0x0 0x0 0x0 0x0 RW 0x0", or "R E" of other flags
    stack = re.search(r"GNU_STACK(?:\s+0x\w+){5}\s+([RWE ]+?)\s+(?:0x)?\d", segments)
    has = {
        "an address of its own at each start (PIE)": re.search(r"Type:\s+DYN", header),
        "tables that are read-only once it runs (RELRO)": "GNU_RELRO" in segments,
        "all addresses known when it begins (BIND_NOW)": re.search(r"BIND_NOW|FLAGS_1.*\bNOW\b", dynamic),
        "a stack that is no code": stack is not None and "E" not in stack.group(1),
        "canaries on the stack": "__stack_chk_fail" in symbols,
        "checked copies (FORTIFY)": re.search(r"\b__\w+_chk\b", symbols.replace("__stack_chk_fail", "")),
    }
    return [name for name, is_there in has.items() if not is_there]


PROGRAM = r"""
#include <cstdio>
#include <cstring>
#include <unistd.h>
int main(int argc, char** argv) {
  char text[16];
  std::strcpy(text, argv[argc - 1]);
  return static_cast<int>(read(0, text, static_cast<size_t>(argc)));
}
"""
HARD = ["-fPIE", "-pie", "-fstack-protector-strong", "-D_FORTIFY_SOURCE=2", "-Wl,-z,relro", "-Wl,-z,now",
        "-Wl,-z,noexecstack"]
SOFT = ["-fno-PIE", "-no-pie", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-Wl,-z,norelro", "-Wl,-z,lazy",
        "-Wl,-z,execstack"]


def self_test(readelf, compiler):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "program.cc")
        with open(source, "w", encoding="ascii") as file:
            file.write(PROGRAM)
        for flags, expected in ((HARD, 0), (SOFT, 6)):
            program = os.path.join(folder, "program")
            subprocess.run([compiler, "-O2", *flags, source, "-o", program], check=True)
            found = missing(readelf, program)
            if len(found) != expected:
                sys.exit(f"of a program with {flags} this is missing: {found}, {expected} were expected")


def main():
    readelf, *paths = sys.argv[1:]
    if paths[:1] == ["--self-test"]:
        return self_test(readelf, paths[1])
    warnings = [f"{path} lacks {name}" for path in paths for name in missing(readelf, path)]
    if not paths or warnings:
        sys.exit("\n".join(warnings) or "no programs given")
    print(f"{len(paths)} programs and libraries are hardened")
    return 0


if __name__ == "__main__":
    sys.exit(main())
