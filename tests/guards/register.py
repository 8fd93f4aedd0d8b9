"""Reads the register of guards (docs/guards.md), and says what is wrong with it.

A guard is a row of a table of the document: what it sees to, where it is kept, the planted defect that leaves it out, and
the checks that find that. Nothing else lists them: what runs the checks reads the document, and so does the test that
compares it with the sources.
"""
import os
import re
from dataclasses import dataclass, field

DOCUMENT = os.path.join("docs", "guards.md")
SEEDS = os.path.join("tests", "sim", "mutation_seeds")
RULES = 20
# How the simulator is run.
MODES = ("", "--crashes", "--interludes --settings drawn")
HEADER = ["Guard", "Kept in", "Planted defect", "Found by"]
# A section without a table has to begin a paragraph with this, and say why.
NO_GUARD = "No guard:"

MARK = re.compile(r'RC_(?:STEP_)?MUTATION\(\s*"([^"]+)"\s*\)')
ANY_MARK = re.compile(r"RC_(?:STEP_)?MUTATION\(")
DEFINED_IN = {os.path.join("src", "base", "mutation.h"), os.path.join("src", "base", "step.h")}
TEST = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.M)


@dataclass(frozen=True)
class Check:
    """`program arguments` as in the document: a test by name, the simulator, or a step of tools/test."""
    program: str
    arguments: str

    @property
    def is_simulator(self):
        return self.program == "simulator"

    @property
    def is_step(self):
        return self.program == "tools/test"

    @property
    def is_test(self):
        return not self.is_simulator and not self.is_step

    def __str__(self):
        return f"{self.program} {self.arguments}".strip()


@dataclass
class Guard:
    rule: int
    line: int
    what: str
    places: list
    mutation: str
    checks: list


@dataclass
class Register:
    guards: list = field(default_factory=list)
    problems: list = field(default_factory=list)

    def of_simulator(self):
        """The arguments of the simulator with which each planted defect has to be found."""
        return {guard.mutation: check.arguments.split()
                for guard in self.guards for check in guard.checks if check.is_simulator}


def read_file(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def parse(text):
    register = Register()
    rule = 0
    has_anything = True
    is_table = False

    def end_section():
        if rule and not has_anything:
            register.problems.append(f"rule {rule}: neither guards nor a reason for having none (\"{NO_GUARD} ...\")")

    for number, line in enumerate(text.splitlines(), 1):
        heading = re.match(r"## (\d+)\. ", line)
        if heading or line.startswith("## "):
            end_section()
            has_anything = not heading
            if heading:
                if int(heading.group(1)) != rule + 1:
                    register.problems.append(f"line {number}: rule {heading.group(1)} follows on rule {rule}")
                rule = int(heading.group(1))
        has_anything = has_anything or line.startswith(NO_GUARD)
        if not line.startswith("|"):
            is_table = False
            continue
        cells = cells_of(line)
        if cells == HEADER:
            is_table = True
            continue
        if not is_table or set(line) <= set("|-: "):
            continue
        has_anything = True
        if len(cells) != len(HEADER):
            register.problems.append(f"line {number}: {len(cells)} cells instead of {len(HEADER)}")
            continue
        names = quoted(cells[2])
        if len(names) != 1 or not rule:
            register.problems.append(f"line {number}: a row has one planted defect, under a rule")
            continue
        checks = [Check(*(check.split(maxsplit=1) + [""])[:2]) for check in quoted(cells[3])]
        register.guards.append(Guard(rule, number, cells[0], quoted(cells[1]), names[0], checks))
    end_section()
    if rule != RULES:
        register.problems.append(f"{rule} rules instead of {RULES}")
    return register


def marks_of(root):
    """The planted defects of the sources: name -> files. And what is wrong with how they stand there."""
    marks, odd = {}, []
    for folder, _, files in os.walk(os.path.join(root, "src")):
        for name in sorted(files):
            if not name.endswith((".cc", ".h")):
                continue
            path = os.path.relpath(os.path.join(folder, name), root)
            text = read_file(os.path.join(root, path))
            found = MARK.findall(text)
            for mutation in found:
                marks.setdefault(mutation, set()).add(path)
            if path in DEFINED_IN:
                continue
            if len(ANY_MARK.findall(text)) != len(found):
                odd.append(f"{path}: a planted defect has a plain name in quotes")
            if path.endswith(".h") and "RC_MUTATION(" in text:
                odd.append(f"{path}: with a planted defect in a header all that includes it would be compiled twice")
    return marks, odd


def folder_of(program):
    """Where the tests of a program lie."""
    unit = re.fullmatch(r"unit_(\w+)_test", program)
    if unit:
        return os.path.join("tests", "unit", unit.group(1))
    return {"sim_test": os.path.join("tests", "sim"), "steps_test": os.path.join("tests", "steps"),
            "cluster_threads_test": os.path.join("tests", "cluster")}.get(program)


def tests_of(root, program):
    folder = folder_of(program)
    path = os.path.join(root, folder) if folder else ""
    tests = set()
    for below, _, names in os.walk(path) if folder else []:
        for name in names:
            if name.endswith(".cc"):
                tests.update(f"{suite}.{case}" for suite, case in TEST.findall(read_file(os.path.join(below, name))))
    return tests


def plain_name(name):
    """Of a test, without what an instantiation puts around it: All/Suite.Case/3 -> Suite.Case."""
    match = re.fullmatch(r"(?:\w+/)?(\w+\.\w+)(?:/\w+)?", name)
    return match.group(1) if match else None


def read_seeds(root):
    table = {}
    path = os.path.join(root, SEEDS)
    for line in read_file(path).splitlines() if os.path.exists(path) else []:
        words = line.split("#")[0].split()
        if words:
            table[words[0]] = [int(word) for word in words[1:]]
    return table


def planted_by_steps(text):
    """Of tools/test: each step, and the defects that what it runs has to find (`must_find`)."""
    text = re.sub(r"(?m)^\s*#.*$", "", text)
    bodies = dict(re.findall(r"^(\w+)\(\) \{\n(.*?)^\}", text, re.M | re.S))
    bodies.update(re.findall(r"^(\w+)\(\) \{ (.*) \}$", text, re.M))

    def planted_in(function, seen):
        if function in seen or function not in bodies:
            return set()
        seen.add(function)
        body = bodies[function]
        names = set(re.findall(r"\bmust_find ([a-z][\w-]+)", body))
        for listed in re.findall(r"\bmutations\+?=\(([^)]*)\)", body):
            names.update(listed.split())
        return names.union(*(planted_in(called, seen) for called in re.findall(r"\w+", body)))

    steps = re.findall(r'^  "([\w-]+)\|[^|\n]*\|[^|\n]*\|[^|\n]*\|(?:beside )?(\w+)"$', text, re.M)
    return {step: planted_in(function, set()) for step, function in steps}


def check_problems(root, guard, check, known_tests, steps, seeds):
    where = f"line {guard.line}: {guard.mutation}"
    if check.is_simulator:
        if check.arguments not in MODES:
            return [f"{where}: the simulator is run with {', '.join(filter(None, MODES))} or nothing, and seeds are in {SEEDS}"]
        return [] if seeds.get(guard.mutation) else [f"{where}: {SEEDS} has no seeds for it"]
    if check.is_step:
        step = re.fullmatch(r"--only ([\w-]+)", check.arguments)
        planted = planted_by_steps(steps).get(step.group(1), set()) if step else set()
        return [] if guard.mutation in planted else [f"{where}: `{check}` does not plant it"]
    if check.program not in known_tests:
        known_tests[check.program] = tests_of(root, check.program)
    if plain_name(check.arguments) not in known_tests[check.program]:
        return [f"{where}: there is no test `{check}`"]
    return []


def load(root):
    """The register, with all that is wrong with it."""
    document = os.path.join(root, DOCUMENT)
    register = parse(read_file(document)) if os.path.exists(document) else Register(problems=[f"no {DOCUMENT}"])
    problems = register.problems
    marks, odd = marks_of(root)
    seeds = read_seeds(root)
    steps_path = os.path.join(root, "tools", "test")
    steps = read_file(steps_path) if os.path.exists(steps_path) else ""
    problems += odd
    names = [guard.mutation for guard in register.guards]
    problems += [f"{name}: more than one guard has this planted defect" for name in sorted(set(names))
                 if names.count(name) > 1]
    problems += [f"{', '.join(sorted(marks[name]))}: the planted defect {name} is of no guard in {DOCUMENT}"
                 for name in sorted(set(marks) - set(names))]
    known_tests = {}
    for guard in register.guards:
        where = f"line {guard.line}: {guard.mutation}"
        places, found = set(guard.places), marks.get(guard.mutation, set())
        problems += [f"{where} is not planted in {path}" for path in sorted(places - found)]
        problems += [f"{where} is planted in {path} as well" for path in sorted(found - places) if places]
        if not places:
            problems.append(f"{where}: nothing says where it is kept")
        if not guard.checks:
            problems.append(f"{where}: no check finds it")
        if sum(check.is_simulator for check in guard.checks) > 1:
            problems.append(f"{where}: the simulator is to find it in one mode")
        for check in guard.checks:
            problems += check_problems(root, guard, check, known_tests, steps, seeds)
    simulated = register.of_simulator()
    problems += [f"{SEEDS}: {name} is not found by the simulator in {DOCUMENT}" for name in sorted(set(seeds) - set(simulated))]
    return register
