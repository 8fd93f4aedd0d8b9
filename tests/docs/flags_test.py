#!/usr/bin/env python3
"""Compares the flags in the documents with those of the tools: what is documented exists, what exists is documented, and
the documented defaults are the real ones."""

import os
import re
import subprocess
import unittest

ROOT = os.environ.get("RAMCORE_SOURCE_DIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BIN_DIR = os.environ.get("RAMCORE_BIN_DIR") or os.path.join(ROOT, "build", "release", "bin")
TOOLS = ("ramcore-coordinator", "ramcore-server", "ramcore", "rcmigrate", "rcbench", "rcnic")
SCRIPTS = ("tools/setup", "tools/test", "tools/quickstart", "tests/bench/run", "tests/bench/idle_cpu.py",
           "tests/bench/durable_bench.py", "tests/bench/recovery_bench.py", "tests/bench/disk_writes_bench.py",
           "tests/bench/migration_bench.py", "tests/bench/migration_idle_bench.py", "tests/bench/migration_line_bench.py",
           "tests/bench/cleaning_bench.py", "tests/bench/dpdk_reads_bench.py",
           "tests/guards/run", "tests/durability/run",
           "tests/durability/cut_off_full")
UNIVERSAL = {"--help", "--version"}
# Of cmake, ctest, gtest, DPDK's scripts and mlnx_qos, as they appear in the documents.
FOREIGN = {"--bind", "--status", "--preset", "--install", "--prefix", "--test-dir", "--output-on-failure", "--gtest_filter", "--trust",
           "--pfc"}


def output(arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAMCORE_")}
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True, env=environment).stdout


def parse_help(text):
    """Long flags at the beginning of an option's line, with their defaults ('' for none)."""
    flags = {}
    for match in re.finditer(r"^ {2,}(?:-\w,)?(--[\w-]+)([^\n]*)", text, re.M):
        default = re.match(r"(?: [^\s=]+(?: in \[[^\]]*\])?(?: \[[^\]]*\])?)?=(\S+)", match.group(2))
        flags[match.group(1)] = default.group(1).strip("[]") if default else ""
    return flags


def flags_of(name):
    """The flags of a tool and of its subcommands."""
    path = os.path.join(BIN_DIR, name)
    text = output([path, "--help"])
    flags = parse_help(text)
    commands = text.split("Subcommands:", 1)
    if len(commands) == 2:
        for command in re.findall(r"^ {2}([\w-]+)", commands[1], re.M):
            flags.update(parse_help(output([path, command, "--help"])))
    return {flag: default for flag, default in flags.items() if flag not in UNIVERSAL}


def flags_in_usage(text):
    """Of programs with less to say: flags in brackets, or at the beginning of a line."""
    return set(re.findall(r"(?:^ {2,}|\[|\| )(--[a-z][\w-]*)", text, re.M)) - UNIVERSAL


def programs():
    """{name in the documents: path} of everything that has flags, beside the tools; those that are built."""
    found = {script: os.path.join(ROOT, script) for script in SCRIPTS}
    build = os.path.dirname(os.path.abspath(BIN_DIR))
    names = ["simulator", "durability_oracle"] + [f"bench_{name[:-len('_bench.cc')]}"
                             for name in os.listdir(os.path.join(ROOT, "tests", "bench")) if name.endswith("_bench.cc")]
    found.update({name: os.path.join(build, name) for name in names})
    return {name: path for name, path in found.items() if os.path.exists(path)}, set(found)


def documents():
    """All texts for readers."""
    paths = [os.path.join(ROOT, "README.md"), os.path.join(ROOT, "CONTRIBUTING.md")]
    for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
        paths += [os.path.join(folder, name) for name in names if name.endswith(".md")]
    return sorted(path for path in paths if os.path.exists(path))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def documented_program_flags():
    """{program: flags} of the tables with the heading `Program | Flags`."""
    result = {}
    for path in documents():
        for table in re.findall(r"^\| Program \| Flags \|\n\|[-|]*\|\n((?:\|.*\n)*)", read(path), re.M):
            for name, flags in re.findall(r"^\| `([^`]*)` \|(.*)\|$", table, re.M):
                if name in result:
                    raise AssertionError(f"{name} is documented twice")
                result[name] = set(re.findall(r"`(--[a-z][\w-]*)", flags))
    return result


def documented_flags():
    """{tool: {flag: default}} of the tables in docs/operating/flags.md; None where the default is in words."""
    with open(os.path.join(ROOT, "docs", "operating", "flags.md"), encoding="utf-8") as file:
        text = file.read()
    result = {}
    for section in re.split(r"^### ", text, flags=re.M)[1:]:
        name = section.split("\n", 1)[0].strip()
        rows = re.findall(r"^\| `(--[\w-]+)` \|([^|]*)\|", re.split(r"^## ", section, flags=re.M)[0], re.M)
        flags = {}
        for flag, default in rows:
            code = re.fullmatch(r"`([^`]*)`", default.strip())
            flags[flag] = code.group(1) if code else (None if default.strip() else "")
        if len(flags) != len(rows):
            raise AssertionError(f"a flag of {name} is documented twice")
        result[name] = flags
    return result


class FlagsTest(unittest.TestCase):
    def test_the_parser_of_help_texts(self):
        text = ("Options:\n  -h,--help                   Print\n  --plain\n  --text TEXT (Env:X)\n"
                "  --name TEXT:{a,b}=a (Env:Y)\n   more --not-a-flag\n  --range UINT:INT in [1 - 32]=7\n"
                "  --list TEXT=[tcp://h:1] ...\n  --size UINT:SIZE [b, kb(=1024b), ...]=5 (Env:Z)\n")
        self.assertEqual(parse_help(text), {"--help": "", "--plain": "", "--text": "", "--name": "a", "--range": "7",
                                            "--list": "tcp://h:1", "--size": "5"})

    def test_the_tables_are_complete_and_right(self):
        documented = documented_flags()
        self.assertEqual(set(documented), set(TOOLS))
        for name in TOOLS:
            with self.subTest(tool=name):
                real = flags_of(name)
                self.assertEqual(set(real) - set(documented[name]), set(), f"flags of {name} that are not documented")
                self.assertEqual(set(documented[name]) - set(real), set(), f"{name} does not have these flags")
                for flag, default in documented[name].items():
                    if default is not None:
                        self.assertEqual(default, real[flag], f"default of {name} {flag}")

    def test_the_parser_of_usage_texts(self):
        text = "Usage: x [--quick | --long] [--only STEP]\n\n  --seeds N  as of tools/other --foreign\n  --help  this\n"
        self.assertEqual(flags_in_usage(text), {"--quick", "--long", "--only", "--seeds"})

    def test_the_flags_of_programs_for_tests_and_benchmarks(self):
        built, all_names = programs()
        documented = documented_program_flags()
        self.assertEqual(set(documented), all_names)
        for name, path in built.items():
            with self.subTest(program=name):
                real = flags_in_usage(output([path, "--help"]))
                self.assertTrue(real, f"{name} --help names no flag")
                self.assertEqual(real - documented[name], set(), f"flags of {name} that are not documented")
                self.assertEqual(documented[name] - real, set(), f"{name} does not have these flags")

    def test_every_flag_in_the_documents_exists(self):
        known = UNIVERSAL | FOREIGN
        for flags in documented_flags().values():
            known |= set(flags)  # those that the tables have are compared above
        for flags in documented_program_flags().values():
            known |= flags
        for path in documents():
            used = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", read(path)))
            self.assertEqual(used - known, set(), f"{os.path.relpath(path, ROOT)} names flags that nothing has")

    def test_a_flag_behind_the_name_of_a_program_is_one_of_its_own(self):
        flags = {name: set(of) for name, of in {**documented_flags(), **documented_program_flags()}.items()}
        names = "|".join(re.escape(name) for name in sorted(flags, key=len, reverse=True))
        for path in documents():
            for line in read(path).splitlines():
                # Up to where the command ends: a quote, another command, a comment.
                for name, rest in re.findall(rf"(?<![\w-])({names})(?![\w/.-])((?: [^`|&#\s]+)*)", line):
                    used = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", rest)) - UNIVERSAL
                    self.assertEqual(used - flags[name], set(), f"{os.path.relpath(path, ROOT)}: {name} in '{line}'")


if __name__ == "__main__":
    unittest.main(verbosity=2)
