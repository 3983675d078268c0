#!/usr/bin/env python3
"""Checks that no old name occurs in the sources. tests/lint/vocabulary.txt lists the old names and the files in which
each of them is forbidden; docs/glossary.md explains the current words. With --apply [ROW]..., the script replaces old
names: it first renames files with git mv and then replaces identifiers.

A line of the list is SCOPE OLD NEW under a heading [ROW]. SCOPE is a path, a glob, * for the whole tree, or several of
these joined by commas. If several lines have the same OLD for a path, the last one applies. An OLD with a slash is the
path of a file, and every mention of that path is replaced. Any other OLD is an identifier. In C code it is replaced
wherever it is a whole token outside of strings. In comments and in other files it is replaced only if it has an
underscore, because a word without one may be plain English. An OLD that ends in () is a function: members of the same
name, after a dot or an arrow, are not replaced.
"""
import argparse
import collections
import fnmatch
import functools
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIST = "tests/lint/vocabulary.txt"
SUFFIXES = (".c", ".cc", ".h", ".cu", ".cuh", ".inc", ".py", ".md", ".txt", ".cmake", ".in", ".map", ".json", "run")
NOT_SEARCHED = ("CHANGELOG.md", LIST)
# Matches a string, a comment, or an identifier of C. Other tokens are skipped.
C_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/|[A-Za-z_]\w*', re.S)
WORD = re.compile(r"(?<![\w/.-])[A-Za-z_]\w*_\w*")

Rule = collections.namedtuple("Rule", "row scopes old new line")


def read_rules():
    rules, row = [], None
    with open(os.path.join(ROOT, LIST), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            if heading := re.fullmatch(r"\[(.+)\]", line):
                row = heading[1]
                continue
            words = line.split()
            if row is None or len(words) != 3:
                raise SystemExit(f"{LIST}:{number}: SCOPE OLD NEW under a [ROW] is wanted")
            rules.append(Rule(row, tuple(words[0].split(",")), words[1], words[2], number))
    return rules


def tracked():
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, check=True, stdout=subprocess.PIPE)
    return [path for path in done.stdout.split("\n") if path.endswith(SUFFIXES) and path not in NOT_SEARCHED and
            "/corpus/" not in path and os.path.isfile(os.path.join(ROOT, path))]


@functools.lru_cache(maxsize=None)
def covers(scopes, path):
    return any(scope == "*" or path == scope or path.startswith(scope.rstrip("/") + "/") or
               ("*" in scope and fnmatch.fnmatch(path, scope)) for scope in scopes)


def rewritten(path, text, names, files):
    """Returns `text` with the identifiers `names` and the paths `files` replaced."""
    if files:
        paths = "|".join(re.escape(old) for old in sorted(files, key=len, reverse=True))
        text = re.sub(rf"(?<![\w/.-])(?:{paths})(?![\w-])", lambda match: files[match[0]], text)
    if not names:
        return text

    def word(match):
        return names.get(match[0], match[0])

    def token(match):
        found = match[0]
        if found + "()" in names and text[match.start() - 1] not in ".>":
            return names[found + "()"]
        if found[0] in "\"'":
            return found
        if found[0] == "/":
            return WORD.sub(word, found)
        return names.get(found, found)

    if path.endswith((".c", ".cc", ".h", ".cu", ".cuh", ".inc")):
        return C_TOKEN.sub(token, text)
    return WORD.sub(word, text)


def changes(rules):
    """Yields (path, text, rewritten text) of each file that the renaming rules change."""
    files = {rule.old: rule.new for rule in rules if "/" in rule.old}
    for path in tracked():
        names = {rule.old: rule.new for rule in rules if "/" not in rule.old and covers(rule.scopes, path)}
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        new = rewritten(path, text, names, files)
        if new != text:
            yield path, text, new


def apply(rules):
    for rule in rules:
        if "/" in rule.old and os.path.exists(os.path.join(ROOT, rule.old)):
            os.makedirs(os.path.dirname(os.path.join(ROOT, rule.new)), exist_ok=True)
            subprocess.run(["git", "mv", rule.old, rule.new], cwd=ROOT, check=True)
    for path, _, new in changes(rules):
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
            file.write(new)


def lint(rules):
    found = 0
    for rule in rules:
        if "/" in rule.old and os.path.exists(os.path.join(ROOT, rule.old)):
            print(f"{rule.old}: is called {rule.new}")
            found += 1
    for path, text, new in changes(rules):
        for number, (old_line, new_line) in enumerate(zip(text.splitlines(), new.splitlines()), 1):
            if old_line != new_line:
                print(f"{path}:{number}: an old name; what is meant is: {new_line.strip()}")
                found += 1
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apply", nargs="*", metavar="ROW", help="rename: these rows of the list, or all")
    args = parser.parse_args()
    rules = read_rules()
    if args.apply is None:
        found = lint(rules)
        print(f"vocabulary: {len(rules)} old names, {found} found")
        return 1 if found else 0
    rows = {rule.row for rule in rules}
    for row in args.apply:
        if row not in rows:
            raise SystemExit(f"{LIST} has no row [{row}]: it has {', '.join(sorted(rows))}")
    apply([rule for rule in rules if not args.apply or rule.row in args.apply])
    return 0


if __name__ == "__main__":
    sys.exit(main())
