#!/usr/bin/env python3
"""The files and functions that the tour (docs/tour.md) and the READMEs below src/ name are in the sources.

A file is a path in backticks that ends with .h, .cc, .proto or .py. A function is `Class::function` or `function()` in
backticks; a data member, an enumerator and a class of a namespace are looked for as well. It has to be declared: a call is
not enough, so the bodies of functions are not looked at."""

import functools
import glob
import os
import re
import tempfile
import unittest

ROOT = os.path.abspath(os.environ.get("RAMCORE_SOURCE_DIR") or
                       os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TOPS = ("src", "include", "tools")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
QUOTED = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./*-]+\.(?:h|cc|proto|py)")
FUNCTION = re.compile(r"((?:\w+::)+~?\w+)(?:\(\))?|(~?\w+)\(\)")
FOREIGN = ("std",)
# The build makes these, and those that come of a .proto.
GENERATED = ("base/mutations_enabled.h",)

COMMENT_OR_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:[^"\\\n]|\\.)*"|(?<!\w)\'(?:[^\'\\\n]|\\.)+\'', re.S)
# Of two branches the first, or a brace that both have would count twice.
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)(?:[^\n\\]|\\\n|\\.)*", re.M)
SCOPE = re.compile(r"\b(?:class|struct|union|namespace|enum(?:\s+(?:class|struct))?)\b(?:\s+\w+\(\))*\s*((?:\w+::)*\w*)"
                   r"\s*(?:final\s*)?(?::(?!:)[^;]*)?$")


def without_comments(source):
    """Without comments, literals, preprocessor directives and what stands between #else and #endif."""
    code = COMMENT_OR_LITERAL.sub(" ", source)
    kept, last, skips = [], 0, []
    for found in DIRECTIVE.finditer(code):
        if not any(skips):
            kept.append(code[last:found.start()])
        last = found.end()
        if found.group(1) in ("if", "ifdef", "ifndef"):
            skips.append(False)
        elif found.group(1) in ("else", "elif") and skips:
            skips[-1] = True
        elif found.group(1) == "endif" and skips:
            skips.pop()
    return "".join(kept) + code[last:]


def scopes_of(source):
    """Pairs of a scope (a class, an enumeration, a namespace; "" is the file) and what stands directly in it: neither in
    parentheses nor in the bodies of functions."""
    texts = [("", [])]
    stack = [(texts[0], True)]  # where text goes to, and whether that is a scope
    parentheses = 0
    for part in re.findall(r"[^{}()]+|[{}()]", without_comments(source)):
        (name, text), is_scope = stack[-1]
        if part == "{":
            head = re.split(r"[;}]|\b(?:public|private|protected)\s*:", "".join(text))[-1]
            found = SCOPE.search(head) if is_scope and parentheses == 0 else None
            transparent = is_scope and parentheses == 0 and re.fullmatch(r"\s*extern\s*", head)
            if found:
                texts.append((found.group(1), []))
                stack.append((texts[-1], True))
                text.append(";")
            else:
                stack.append(((name, text), bool(transparent)))
        elif part == "}":
            if len(stack) > 1:
                stack.pop()
            if stack[-1][1] and parentheses == 0:
                stack[-1][0][1].append(" }")
        elif part in "()":
            if is_scope:
                parentheses += 1 if part == "(" else -1
                if parentheses == (1 if part == "(" else 0):
                    text.append(part)
        elif is_scope and parentheses == 0:
            text.append(part)
    return [(name, "".join(text)) for name, text in texts]


class Declared:
    """What is declared: names with the class, enumeration or namespace they stand in, and functions that stand in none."""

    def __init__(self):
        self.members = set()
        self.scopes = set()
        self.functions = set()

    def add(self, source):
        for scope, text in scopes_of(source):
            name = scope.rpartition("::")[2]
            text = re.sub(r"=[^;,}]*", "=", text)  # a value may be what a function gives
            self.scopes.update(scope.split("::"))
            functions = re.findall(r"(~?\w+)\s*\(\)", text)
            others = re.findall(r"(\w+)\s*(?:\}|[;={,\[]|$)", text)
            classes = re.findall(r"\b(?:class|struct|union|enum)\s+(\w+)", text)
            self.functions.update(functions)
            self.members.update((name, member) for member in (*functions, *others, *classes))
            if "::" in scope:  # namespace a::b { is b in a
                self.members.update(zip(scope.split("::"), scope.split("::")[1:]))

    def has(self, name):
        *scopes, last = name.split("::")
        if not scopes:
            return last in self.functions
        return all(scope in self.scopes for scope in scopes) and (scopes[-1], last) in self.members


def names_of(text):
    """What a document names: the line, the name, and the folders that its paragraph names."""
    text = FENCE.sub(lambda found: "\n" * found.group().count("\n"), text)
    number = 1
    for paragraph in re.split(r"(\n\s*\n)", text):
        all_quoted = QUOTED.findall(paragraph)
        folders = {quoted for quoted in all_quoted if re.fullmatch(r"[\w./-]+", quoted) and not FILE.fullmatch(quoted)}
        folders |= {os.path.dirname(quoted) for quoted in all_quoted if FILE.fullmatch(quoted) and "/" in quoted}
        for offset, line in enumerate(paragraph.split("\n")):
            for quoted in QUOTED.findall(line):
                if FILE.fullmatch(quoted) or (FUNCTION.fullmatch(quoted) and quoted.split("::")[0] not in FOREIGN):
                    yield number + offset, quoted, folders
        number += paragraph.count("\n")


class Tree:
    """Documents and sources below a folder."""

    def __init__(self, folder):
        self.folder = folder

    def read(self, path):
        with open(os.path.join(self.folder, path), encoding="utf-8") as file:
            return file.read()

    def walk(self, top, is_wanted):
        for place, _, names in os.walk(os.path.join(self.folder, top)):
            for name in sorted(names):
                if is_wanted(name):
                    yield os.path.relpath(os.path.join(place, name), self.folder)

    @functools.cached_property
    def declared(self):
        declared = Declared()
        for top in TOPS:
            for path in self.walk(top, lambda name: name.endswith((".h", ".cc"))):
                declared.add(self.read(path))
            for path in self.walk(top, lambda name: name.endswith(".py")):
                declared.functions.update(re.findall(r"^\s*def (\w+)\(", self.read(path), re.M))
        return declared

    def documents(self):
        tour = os.path.join("docs", "tour.md")
        tours = [tour] if os.path.exists(os.path.join(self.folder, tour)) else []
        return tours + list(self.walk("src", lambda name: name == "README.md"))

    def has_file(self, path, document, folders):
        """From src/, include/, tools/ or the root. A README also names files of its folder, those of its layer by their room,
        and those of a folder that the same paragraph names."""
        bases = [*TOPS, ""]
        if document.endswith("README.md"):
            own = os.path.dirname(document)
            bases += [own, os.path.join(*own.split(os.sep)[:2])]
            bases += [os.path.join(base, folder) for base in bases for folder in folders]
        if path in GENERATED:
            return True
        path = re.sub(r"\.pb\.h$", ".proto", path)
        return any(glob.glob(os.path.join(self.folder, base, path)) for base in bases)

    def missing(self):
        """What the documents name and the sources do not have, as `document:line: name`."""
        found = []
        for document in self.documents():
            for line, name, folders in names_of(self.read(document)):
                is_file = FILE.fullmatch(name)
                if not (self.has_file(name, document, folders) if is_file else self.declared.has(name.removesuffix("()"))):
                    found.append(f"{document}:{line}: {name}")
        return found


class TourTest(unittest.TestCase):
    def test_the_names_in_the_documents_are_in_the_sources(self):
        tree = Tree(ROOT)
        self.assertIn(os.path.join("docs", "tour.md"), tree.documents())
        self.assertGreater(len(tree.documents()), 30)
        self.assertGreater(len(list(names_of(tree.read(os.path.join("docs", "tour.md"))))), 150)
        self.assertEqual(tree.missing(), [])


SOURCE = """
// class Gone { void inComment(); };
namespace ramcore::log {
#define RC_BRACE {
constexpr char kBrace = '{';
struct Position;
enum class State : uint8_t { Open, Closed = 2 };
template <typename T>
class Log final : public Base<T>, private Other {
 public:
  explicit Log(int size) : size_(size), twice_{size * 2} { start(size); }
  bool isOpen() const { return inner.called(); }
  virtual void close(Status status = makeStatus()) = 0;
  struct Entry {
    int bytes = sizeOf("void inLiteral() {");
  };
 private:
#ifdef A
  void first() {
#else
  void second() {
#endif
  }
  int size_ = 0;
};
inline void helper(int x) { onlyCalled(x); }
}  // namespace ramcore::log
"""


class ToolsOfTheTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Tree(folder.name)
        self.write("src/log/log.h", SOURCE)
        self.write("src/log/cleaning/cleaner.cc", "")
        self.write("src/log/README.md", "`log.h`\n")

    def write(self, path, text):
        path = os.path.join(self.tree.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_what_is_declared_is_found(self):
        for name in ("Log::isOpen", "Log::close", "log::Log", "Log::Entry", "Log::Entry::bytes", "Log::size_", "Log::Log",
                     "State::Open", "State::Closed", "ramcore::log", "log::helper", "helper", "isOpen", "Log::first"):
            self.assertTrue(self.tree.declared.has(name), name)

    def test_what_is_not_declared_is_not_found(self):
        for name in ("Gone::inComment", "inComment", "inLiteral", "called", "onlyCalled", "Log::start", "Log::called",
                     "Log::onlyCalled", "Log::helper", "makeStatus", "sizeOf", "Entry::isOpen", "Position::close",
                     "State::isOpen", "Log::Other", "Gone::Log::close", "Log::second", "Log::status"):
            self.assertFalse(self.tree.declared.has(name), name)

    def test_all_is_there(self):
        self.write("docs/tour.md", "`log/log.h` `Log::isOpen` and `helper()`, not `std::sort` or `a word`\n")
        self.write("src/log/README.md", "`log.h`, `cleaning/*.cc`, `src/log/log.h`\n```\n`gone.h`\n```\n"
                                        "in `src/log/cleaning/` the\n`cleaner.cc`\n")
        self.write("src/log/cleaning/README.md", "`cleaner.cc`, `../log.h`, `cleaning/cleaner.cc`, `Log::close()`\n")
        self.assertEqual(self.tree.missing(), [])

    def test_a_planted_file_that_does_not_exist(self):
        self.write("docs/tour.md", "# A tour\n\n`log/log.h`, `log/gone.h` and `log.h`\n")
        self.write("src/log/README.md", "`log.h`\n`gone.cc` `other_*.proto`\n\n`cleaning`\n\n`cleaner.cc`\n")
        self.assertEqual(self.tree.missing(), ["docs/tour.md:3: log/gone.h", "docs/tour.md:3: log.h",
                                               "src/log/README.md:2: gone.cc", "src/log/README.md:2: other_*.proto",
                                               "src/log/README.md:6: cleaner.cc"])

    def test_a_planted_function_that_does_not_exist(self):
        self.write("docs/tour.md", "```\nfence\n```\n`Log::isOpen` → `Log::isGone`\n")
        self.write("src/log/README.md", "`log.h`\n\n`gone()` `Gone::close` `Log::close()`\n")
        self.assertEqual(self.tree.missing(), ["docs/tour.md:4: Log::isGone", "src/log/README.md:3: gone()",
                                               "src/log/README.md:3: Gone::close"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
