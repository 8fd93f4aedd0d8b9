"""The sources of a tree: their text, their code without comments and literals, and the declarations that ctags finds."""

import bisect
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
from typing import NamedTuple

CHECKED_TOPS = ("src", "include", "tools")
CODE_TOPS = (*CHECKED_TOPS, "tests", "docs/examples")
TEXT_TOPS = (*CHECKED_TOPS, "tests", "docs")
CODE = (".h", ".cc", ".c")

COMMENT_OR_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|(?<!\w)R"(?P<mark>[^(\s"]*)\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*"'
                                r"|(?<!\w)'(?:[^'\\\n]|\\.)+'", re.S)
# Macros that expand to attributes, such as RC_GUARDED_BY(lock): ctags takes them for functions.
ATTRIBUTE_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)]*\))?[ \t]+(?:RC_ATTRIBUTE|__attribute__)\b", re.M)
# Other code that ctags misreads, and what it is given in its place; the number of lines stays.
SIMPLER = [
    (re.compile(r"\balignas\([^()]*(?:\([^()]*\)[^()]*)*\)"), ""),  # the member behind it is not found
    (re.compile(r"\b(?:u?int\d*_t|size_t)\{(\d+)\}"), r"\1"),  # nor is one with the initial value uint64_t{1} << 30
    (re.compile(r"(~\w+\(\)) override;"), r"\1;"),  # nor is such a destructor
]
# ctags gives lambdas, unnamed classes and unnamed namespaces such names.
UNNAMED = "__anon"


class SetupError(Exception):
    """The check cannot run on this machine."""


class Comment(NamedTuple):
    line: int
    column: int
    text: str  # from the slashes on
    stands_alone: bool  # no code before it on its line


class Declaration(NamedTuple):
    """A class, a function or a data member, where it is declared or defined."""
    path: str
    line: int
    end: int
    kind: str  # class (also of structs and unions), function, prototype or member
    name: str
    scope: str  # qualified name of the class, namespace or function around it
    properties: frozenset

    @property
    def qualified(self):
        return f"{self.scope}::{self.name}" if self.scope else self.name


class OldWord(NamedTuple):
    text: str
    pattern: re.Pattern
    instead: str
    right_below: str  # path prefix where the word is right; empty: nowhere


def shown(qualified):
    """A qualified name without the project's namespace and without unnamed ones."""
    parts = [part for part in qualified.split("::") if not part.startswith(UNNAMED)]
    return "::".join(parts[1:] if parts[0] == "ramcore" and len(parts) > 1 else parts)


class Source:
    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.split("\n")

    @functools.cached_property
    def _split(self):
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line) + 1)
        comments = []

        def replace(found):
            text = found.group()
            if not text.startswith(("//", "/*")):
                return '""' + "\n" * text.count("\n")
            line = bisect.bisect_right(starts, found.start())
            before = self.text[starts[line - 1]:found.start()]
            comments.append(Comment(line, len(before), text, not before.strip()))
            return " " + "\n" * text.count("\n")

        return COMMENT_OR_LITERAL.sub(replace, self.text), comments

    @property
    def code(self):
        """The text without comments and without what literals contain."""
        return self._split[0]

    @property
    def comments(self):
        return self._split[1]


def is_script_name(path):
    return path.endswith(".py") or "." not in os.path.basename(path)


class Tree:
    """All files below a root that a rule looks at; each is read once."""

    def __init__(self, root, words=()):
        self.root = root
        self.words = words  # OldWord
        self.code = [self._read(path) for path in self._paths(CODE_TOPS, CODE)]
        self.documents = [self._read(path) for path in self._paths(TEXT_TOPS, (".md",))]
        self.documents += [self._read(name) for name in sorted(os.listdir(root)) if name.endswith(".md")]
        self.protocols = [self._read(path) for path in self._paths(CHECKED_TOPS, (".proto",))]
        scripts = [self._read(path) for path in self._paths(("tools",), "") if is_script_name(path)]
        self.scripts = [source for source in scripts if source.path.endswith(".py") or source.text.startswith("#!")]

    def _read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return Source(path, file.read())

    def _paths(self, tops, endings):
        for top in tops:
            for folder, folders, names in os.walk(os.path.join(self.root, top)):
                folders.sort()
                for name in sorted(names):
                    if name.endswith(endings):
                        yield os.path.relpath(os.path.join(folder, name), self.root)

    @functools.cached_property
    def checked(self):
        """The C++ sources of src, include and tools."""
        return [source for source in self.code if source.path.split("/")[0] in CHECKED_TOPS]

    @functools.cached_property
    def declarations(self):
        return declarations_of(self.checked)


def find_ctags():
    for name in ("ctags-universal", "ctags"):
        path = shutil.which(name)
        if path is None:
            continue
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        if "Universal Ctags" in version and "+json" in version:
            return path
    raise SetupError("Universal Ctags with JSON output is not installed: run tools/setup")


def simplified(sources):
    """For each source a text that ctags understands."""
    macros = sorted({name for source in sources for name in ATTRIBUTE_MACRO.findall(source.text)})
    attribute = re.compile(rf"\b(?:{'|'.join(macros)})\b(?:\([^()]*\))?") if macros else None
    for source in sources:
        code = attribute.sub("", source.code) if attribute else source.code
        for pattern, instead in SIMPLER:
            code = pattern.sub(instead, code)
        yield source.path, code


def declarations_of(sources):
    """What ctags finds in the sources, in the order of files and lines, without lambdas."""
    command = [find_ctags(), "--options=NONE", "--output-format=json", "--language-force=C++", "--kinds-c++=cfmpsu",
               "--fields=*", "--fields-c++=+{properties}", "--sort=no", "-f", "-", "-L", "-"]
    with tempfile.TemporaryDirectory() as folder:
        for path, code in simplified(sources):
            os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(code)
        done = subprocess.run(command, cwd=folder, input="".join(f"{source.path}\n" for source in sources),
                              capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SetupError(f"ctags failed: {done.stderr.strip()}")
    found = []
    for line in done.stdout.splitlines():
        tag = json.loads(line)
        kind = "class" if tag["kind"] in ("struct", "union") else tag["kind"]
        if kind in ("function", "prototype") and tag["name"].startswith(UNNAMED):
            continue
        found.append(Declaration(tag["path"], tag["line"], tag.get("end", tag["line"]), kind, tag["name"],
                                 tag.get("scope", ""), frozenset(tag.get("properties", "").split(","))))
    return sorted(found, key=lambda one: one[:5])
